// SPDX-License-Identifier: Apache-2.0
// Messages between ranks of a group, and Python objects, sent by pickle.
#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/engine.hpp"
#include "engine/sparse.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;
using Self = CommunicatorHandle;

Tag tag_of(nb::handle tag) { return int_of(tag, "the tag"); }
int peer_of(nb::handle peer) { return int_of(peer, "the peer"); }

Prepared send(const Self&, nb::handle in, nb::handle to, nb::handle tag) {
    const auto peer = peer_of(to);
    auto prepared = Prepared{};
    prepared.in = array_of(in, "the buffer of send", false);
    prepared.call = detail::make_send(prepared.in, peer, tag_of(tag));
    return prepared;
}

Prepared received(nb::handle out, int source, nb::handle tag) {
    auto prepared = arrays_of(Op::recv, out, nb::none());
    prepared.call = detail::make_recv(prepared.out, source, tag_of(tag));
    return prepared;
}
Prepared recv(const Self&, nb::handle out, nb::handle from, nb::handle tag) {
    return received(out, peer_of(from), tag);
}
Prepared recv_any(const Self&, nb::handle out, nb::handle tag) {
    return received(out, detail::any_source, tag);
}

/// Returns the sender and the length of a message; None if there is none and this does not wait. Of the
/// source None a message of any rank counts.
template <bool waits>
nb::object probe(const Self& self, nb::handle source, nb::handle tag) {
    auto& on = self.get();
    const auto from = source.is_none() ? detail::any_source : int_of(source, "the source");
    const auto with = tag_of(tag);
    const auto found =
        result_without_gil(leaving(on), [&] { return detail::Access::probe(on, from, with, waits); });
    return found ? nb::object(nb::make_tuple(found->from, found->bytes)) : nb::object(nb::none());
}

/// Runs sends and receives as one operation.
void batch(const Self& self, nb::handle sends, nb::handle recvs) {
    auto& on = self.get();
    auto messages = std::vector<Prepared>{};
    const auto add = [&](nb::handle pairs, bool is_send) {
        for (auto pair : pairs) {
            const auto parts = nb::hasattr(pair, "__len__") ? nb::len(pair) : 0;
            if (parts != 2 && parts != 3)
                throw TypeFault(cat("a message of a batch is ", described(pair),
                                    "; it must be (array, peer) or (array, peer, tag)"));
            auto array =
                array_of(nb::object(pair[0]), is_send ? "a send of a batch" : "a recv of a batch", !is_send);
            const auto peer = peer_of(nb::object(pair[1]));
            const auto tag = parts == 3 ? tag_of(nb::object(pair[2])) : Tag(0);
            const auto call =
                is_send ? detail::make_send(array, peer, tag) : detail::make_recv(array, peer, tag);
            messages.push_back({.call = call, .in = array, .out = is_send ? Array{} : array});
        }
    };
    add(sends, true);
    add(recvs, false);
    without_gil(leaving(on), [&] {
        on.batch([&] {
            for (const auto& message : messages)
                with_call(message, [&](const auto& call) { detail::Access::run(on, call); });
        });
    });
}

/// The messages of a mapping or of pairs; `arrays` keeps their memory.
std::vector<detail::SparseMessage> messages_of(nb::handle given, const Array& like,
                                               std::vector<Array>& arrays) {
    auto messages = std::vector<detail::SparseMessage>{};
    const auto pairs = nb::hasattr(given, "items") ? nb::object(given.attr("items")()) : nb::borrow(given);
    for (auto each : pairs) {
        const auto pair = nb::tuple(nb::borrow(each));
        if (pair.size() != 2)
            throw TypeFault(cat("a message of sparse_all_to_all is ", described(each),
                                "; it must be a pair of a group rank and an array"));
        const auto to = int_of(pair[0], "the peer");
        arrays.push_back(contiguous_array_of(pair[1], "a message of sparse_all_to_all", false));
        const auto& array = arrays.back();
        if (array.dtype != like.dtype || array.unit != like.unit)
            throw UsageError(cat("a message of sparse_all_to_all to group rank ", to, " has ",
                                 to_string(array.dtype), " elements, and the dtype given is ",
                                 to_string(like.dtype), "; all messages must be of it"));
        messages.push_back({to, array});
    }
    return messages;
}

nb::list sparse_all_to_all(const Self& self, nb::handle given, nb::handle dtype) {
    auto& on = self.get();
    const auto numpy = numpy_for("sparse_all_to_all");
    const auto like = array_of(numpy.attr("empty")(0, dtype), "the dtype of sparse_all_to_all", false);
    auto arrays = std::vector<Array>{};
    const auto messages = messages_of(given, like, arrays);
    const auto received =
        result_without_gil(leaving(on), [&] { return detail::sparse_bytes(on, messages, like); });
    auto result = nb::list();
    for (const auto& [from, bytes] : received) {
        const auto copy = nb::bytearray(bytes.data(), bytes.size());  // frombuffer refuses empty ones
        result.append(nb::make_tuple(
            from, bytes.empty() ? numpy.attr("empty")(0, dtype) : numpy.attr("frombuffer")(copy, dtype)));
    }
    return result;
}

std::vector<char> pickled(nb::handle object) {
    const auto bytes = nb::cast<nb::bytes>(
        call_python(nb::module_::import_("pickle").attr("dumps"), nb::make_tuple(object, 5)));
    return {bytes.c_str(), bytes.c_str() + bytes.size()};
}
nb::object unpickled(const std::vector<char>& bytes) {
    return call_python(nb::module_::import_("pickle").attr("loads"),
                       nb::make_tuple(nb::bytes(bytes.data(), bytes.size())));
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

void bind_messages(nb::class_<CommunicatorHandle>& c) {
    bind_operation(c, "def send(self, buffer: typing.Any, to: int, tag: int = 0) -> None",
                   "Sends `buffer` to group rank `to`, which must call recv with the same length, type and "
                   "tag. Tags are 0 to 16383. May return before `to` has received the message.",
                   &send);
    bind_operation(c, "def recv(self, buffer: _T, source: int, tag: int = 0) -> _T",
                   "Receives a message of group rank `source` into `buffer`. The message must have the same "
                   "length, type and tag.",
                   &recv);
    bind_operation(c, "def recv_any(self, buffer: typing.Any, tag: int = 0) -> int",
                   "Receives a message of any other rank of the group into `buffer` and returns the sender's "
                   "group rank. The message must have the same length and type. Of each rank only the next "
                   "message is considered, and only if it has this tag; of several the first to arrive is "
                   "received. Raises PeerLost once nobody is left who could send.",
                   &recv_any);
    method(
        c,
        "def _start_by_tag(self, name: str, buffer: typing.Any, peer: int, tag: int) -> Pending[typing.Any]",
        "Starts the send, recv or recv_any of a message that may overtake those of other tags.",
        [](const Self& self, const std::string& name, nb::handle array, nb::handle peer, nb::handle tag) {
            auto prepared = name == "send"   ? send(self, array, peer, tag)
                            : name == "recv" ? recv(self, array, peer, tag)
                                             : recv_any(self, array, tag);
            prepared.call.edge = Edge::open;
            return start(self, std::move(prepared));
        });
    method(
        c, "def probe(self, source: int | None = None, tag: int = 0) -> tuple[int, int]",
        "Waits until group rank `source`, or any other rank for None, has sent a message with this tag that "
        "this rank would receive next. Returns its sender and its length in bytes without receiving it.",
        &probe<true>);
    method(c, "def try_probe(self, source: int | None = None, tag: int = 0) -> tuple[int, int] | None",
           "Like probe, but returns None at once if there is no such message.", &probe<false>);
    bind_operation(
        c, "def send_recv(self, buffer: typing.Any, to: int, out: _T, source: int, tag: int = 0) -> _T",
        "Sends `buffer` to group rank `to` and receives `out` from `source` at the same time, with one tag. "
        "The arrays may differ in length, but not in type.",
        +[](const Self&, nb::handle in, nb::handle to, nb::handle out, nb::handle from, nb::handle tag) {
            const auto peer = peer_of(to);
            auto prepared = arrays_of(Op::send_recv, in, out);
            const auto source = peer_of(from);
            prepared.call = detail::make_send_recv(prepared.in, peer, prepared.out, source, tag_of(tag));
            return prepared;
        });
    method(c,
           "def batch(self, sends: collections.abc.Iterable[tuple[typing.Any, int] | tuple[typing.Any, int, "
           "int]] = (), recvs: collections.abc.Iterable[tuple[typing.Any, int] | tuple[typing.Any, int, "
           "int]] = ()) -> None",
           "Runs sends and receives as one operation; their order cannot deadlock. Each is a tuple (array, "
           "group rank) or (array, group rank, tag). Messages between two ranks match in the order of their "
           "tags.",
           &batch);
    method(c,
           "def sparse_all_to_all(self, messages: collections.abc.Mapping[int, typing.Any] | "
           "collections.abc.Iterable[tuple[int, typing.Any]], dtype: typing.Any) -> list[tuple[int, "
           "typing.Any]]",
           "Sends each message to its rank, and returns the messages that other ranks have sent to this one, "
           "as pairs of the sender's group rank and a NumPy array, ordered by sender. No rank knows who "
           "sends to it, nor how much.\n\n`messages` maps group ranks to arrays, or holds pairs of them. All "
           "arrays have `dtype`, the same on all ranks. Every rank of the group calls it. On MPI a rank "
           "needs neither memory nor messages for ranks that it does not send to.\n\nRaises UsageError for a "
           "rank that is not in the group, and on a device, where host() has it.",
           sparse_all_to_all);
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
