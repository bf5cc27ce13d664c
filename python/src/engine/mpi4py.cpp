// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#ifdef RANKMESH_PYTHON_MPI
#include <cstdint>

#include <rankmesh/interop/mpi.hpp>
#endif

namespace rankmesh::python {
namespace {

#ifdef RANKMESH_PYTHON_MPI

using detail::cat;

/// Returns mpi4py's module. Throws UsageError unless mpi4py uses the same MPI as this build.
nb::object checked_mpi4py() {
    const nb::object module = nb::module_::import_("mpi4py.MPI");
    const nb::object given = module.attr("Get_library_version")();
    const auto theirs = text_of(given, "the version of mpi4py's MPI");
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    auto length = 0;
    MPI_Get_library_version(version, &length);
    const auto ours = std::string(version, static_cast<std::size_t>(length));
    const auto line = [](const std::string& text) { return text.substr(0, text.find_first_of(",\n")); };
    // Older versions of mpi4py truncate the text.
    if (theirs.empty() || ours.substr(0, theirs.size()) != theirs)
        throw UsageError(cat("mpi4py works on ", line(theirs), " and this build on ", line(ours),
                             "; communicators cross only between the same MPI"));
    return module;
}

MPI_Comm* address_of(const nb::object& module, nb::handle comm) {
    const nb::object address = module.attr("_addressof")(comm);
    return reinterpret_cast<MPI_Comm*>(nb::cast<std::uintptr_t>(address));
}

std::unique_ptr<WorldHandle> from_mpi4py(nb::handle comm) {
    const auto module = checked_mpi4py();
    const nb::object type = module.attr("Comm");
    if (!nb::isinstance(comm, type))
        throw TypeFault(cat("a communicator is ", described(comm), "; it must be mpi4py's"));
    const auto given = *address_of(module, comm);
    return std::make_unique<WorldHandle>(result_without_gil({}, [&] { return World(mpi::adopt(given)); }));
}

nb::object to_mpi4py(const nb::object& communicator) {
    if (!nb::isinstance<CommunicatorHandle>(communicator))
        throw TypeFault(cat("a communicator is ", described(communicator), "; it must be rankmesh's"));
    const auto module = checked_mpi4py();
    const auto native = mpi::native(nb::cast<CommunicatorHandle&>(communicator).get());
    const auto made = nb::module_::import_("rankmesh._mpi4py").attr("Intracomm")();
    made.attr("_rankmesh") = communicator;
    *address_of(module, made) = native;
    return made;
}

#else

constexpr auto missing = "built without MPI; install rankmesh where an MPI is found";
std::unique_ptr<WorldHandle> from_mpi4py(nb::handle) { throw NotBuilt(missing); }
nb::object to_mpi4py(const nb::object&) { throw NotBuilt(missing); }

#endif

}  // namespace

void bind_mpi4py(nb::module_& m) {
    function(m, "def from_mpi4py(comm: typing.Any) -> World",
             "Returns a world of the ranks of an mpi4py communicator, in its order. Collective. The caller "
             "still owns the communicator. Ctrl-C takes effect when all ranks have called it. Raises "
             "UsageError if mpi4py uses another MPI than this build.",
             &from_mpi4py);
    function(m, "def to_mpi4py(communicator: Communicator) -> typing.Any",
             "Returns the MPI communicator behind a rankmesh communicator, as an mpi4py communicator that "
             "keeps it alive. rankmesh still owns it, and it cannot be freed. Raises UsageError if there is "
             "none, or if mpi4py uses another MPI.",
             &to_mpi4py);
}

}  // namespace rankmesh::python
