// SPDX-License-Identifier: Apache-2.0
#include "engine/sparse_bytes.hpp"

#include "engine/array.hpp"
#include "engine/engine.hpp"
#include "engine/interrupt.hpp"

namespace rankmesh::python {
namespace {

/// The messages of a mapping or of pairs; `arrays` keeps their memory.
std::vector<detail::SparseMessage> messages_of(nb::handle given, const Array& like,
                                               std::vector<Array>& arrays) {
    auto messages = std::vector<detail::SparseMessage>{};
    const auto pairs = nb::hasattr(given, "items") ? nb::object(given.attr("items")()) : nb::borrow(given);
    for (auto each : pairs) {
        const auto pair = nb::tuple(nb::borrow(each));
        if (pair.size() != 2)
            throw TypeFault(detail::cat("a message of sparse_all_to_all is ", described(each),
                                        "; it must be a pair of a group rank and an array"));
        const auto to = int_of(pair[0], "the peer");
        arrays.push_back(contiguous_array_of(pair[1], "a message of sparse_all_to_all", false));
        const auto& array = arrays.back();
        if (array.dtype != like.dtype || array.unit != like.unit)
            throw UsageError(detail::cat("a message of sparse_all_to_all to group rank ", to, " has ",
                                         to_string(array.dtype), " elements, and the dtype given is ",
                                         to_string(like.dtype), "; all messages must be of it"));
        messages.push_back({to, array});
    }
    return messages;
}

nb::list sparse_all_to_all(const CommunicatorHandle& self, nb::handle given, nb::handle dtype) {
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

}  // namespace

void bind_sparse(nb::class_<CommunicatorHandle>& c) {
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
}

}  // namespace rankmesh::python
