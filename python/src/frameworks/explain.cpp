// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

#include "convert/words.hpp"
#include "frameworks/frameworks.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;

/// Reads a mesh or a placement of the job whose records these are.
std::optional<Placement> mesh_of_job(nb::handle mesh, const std::vector<FlightRecord>& records) {
    if (mesh.is_none()) return std::nullopt;
    const auto text = text_of(nb::str(mesh), "the mesh");
    auto world = std::optional<int>{};
    for (const auto& record : records) world = std::max(world, record.world_size);
    const auto job = conversion::parse_job(text, world);
    if (!job.single())
        throw UsageError(cat(detail::in_quotes(text), " has several meshes; give one of them"));
    const auto where = *job.single();
    if (world)
        conversion::check_within(text, where.extent() - 1, *world,
                                 "mesh= must be the mesh of the job, whose records say");
    return where;
}

nb::tuple explained(nb::handle paths, nb::handle mesh) {
    auto names = std::vector<std::string>{};
    for (const auto path : nb::borrow(paths)) names.push_back(path_of(path, "a folder of records"));
    const auto folder = read_records(names);
    if (folder.records.empty() && folder.lines.empty())
        throw UsageError(cat("there is no flight record: ", detail::excerpt(folder.unread.front().why, 300)));
    const auto said = explain(folder.records, folder.unread, mesh_of_job(mesh, folder.records), folder.lines);
    auto text = std::string{};
    for (const auto& [indent, line] : lines_of(folder.records, said)) text += line + '\n';
    return nb::make_tuple(nb::module_::import_("json").attr("loads")(json_of(folder.records, said)), text);
}

}  // namespace

void bind_explain(nb::module_& m) {
    function(m,
             "def explained(paths: collections.abc.Iterable[str | os.PathLike[str]], mesh: object) -> "
             "tuple[dict[str, typing.Any], str]",
             "Returns the JSON of `rankmesh explain --json`, and the text.", &explained);
}

}  // namespace rankmesh::python
