// SPDX-License-Identifier: Apache-2.0
// Python objects, sent by pickle.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.hpp"
#include "engine/interrupt.hpp"
#include "values/ranks.hpp"

namespace rankmesh::python {
namespace {

using Self = CommunicatorHandle;

std::vector<char> pickled(nb::handle object) {
    const auto bytes = nb::cast<nb::bytes>(nb::module_::import_("pickle").attr("dumps")(object, 5));
    return {bytes.c_str(), bytes.c_str() + bytes.size()};
}
nb::object unpickled(const std::vector<char>& bytes) {
    return nb::module_::import_("pickle").attr("loads")(nb::bytes(bytes.data(), bytes.size()));
}

nb::object broadcast_object(const Self& self, nb::object object, nb::handle root) {
    auto& on = self.get();
    const auto from = int_of(root, "the root");
    auto bytes = on.rank() == from ? pickled(object) : std::vector<char>{};
    without_gil(leaving(on), [&] { on.broadcast_object(bytes, from); });
    return on.rank() == from ? object : unpickled(bytes);
}

void send_object(const Self& self, nb::handle object, nb::handle to) {
    auto& on = self.get();
    const auto bytes = pickled(object);
    const auto peer = int_of(to, "the peer");
    without_gil(leaving(on), [&] { on.send_object(bytes, peer); });
}

nb::object recv_object(const Self& self, nb::handle from) {
    auto& on = self.get();
    const auto peer = int_of(from, "the peer");
    auto bytes = std::vector<char>{};
    without_gil(leaving(on), [&] { on.recv_object(bytes, peer); });
    return unpickled(bytes);
}

nb::object all_gather_object(const Self& self, nb::handle object) {
    auto& on = self.get();
    const auto mine = pickled(object);
    auto lengths = std::vector<std::uint64_t>(static_cast<std::size_t>(on.size()));
    auto all = std::vector<char>{};
    auto counts = std::vector<std::size_t>{};
    without_gil(leaving(on), [&] {
        auto host = on.host();
        const auto length = static_cast<std::uint64_t>(mine.size());
        host.all_gather(length, lengths);
        counts.assign(lengths.begin(), lengths.end());
        auto sum = std::size_t{0};
        for (auto count : counts) sum += count;
        all.resize(sum);
        host.all_gather_v(mine, all, counts);
    });
    auto objects = nb::list();
    auto at = all.begin();
    for (auto count : counts) {
        const auto end = at + static_cast<std::ptrdiff_t>(count);
        objects.append(unpickled({at, end}));
        at = end;
    }
    return objects;
}

}  // namespace

void bind_objects(nb::class_<CommunicatorHandle>& c) {
    method(c, "def broadcast_object(self, object: typing.Any, root: int = 0) -> typing.Any",
           "Returns the root's object, sent by pickle. The other ranks' argument is ignored. Ranks must "
           "trust each other, because unpickling runs code.",
           &broadcast_object);
    method(c, "def send_object(self, object: typing.Any, to: int) -> None",
           "Sends an object by pickle to group rank `to`, which must call recv_object.", &send_object);
    method(c, "def recv_object(self, source: int) -> typing.Any",
           "Returns the object that group rank `source` sends with send_object.", &recv_object);
    method(c, "def all_gather_object(self, object: _T) -> list[_T]",
           "Returns the objects of all ranks of the group, in order, sent by pickle.", &all_gather_object);
}

}  // namespace rankmesh::python
