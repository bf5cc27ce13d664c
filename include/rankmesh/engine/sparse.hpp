// SPDX-License-Identifier: Apache-2.0
// sparse_all_to_all, messages from each rank to a few others that do not know who sends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/buffers.hpp>
#include <rankmesh/engine/communicator.hpp>

namespace rankmesh {

namespace detail {

/// A message of a sparse exchange to a group rank.
struct SparseMessage {
    int to;
    AnyBuffer<const void> data;
};
/// Sends `messages`, and receives into the memory that `room` returns for each arriving message of `count`
/// elements like those of `like`.
RANKMESH_EXPORT void run_sparse_all_to_all(Communicator& on, std::span<const SparseMessage> messages,
                                           const AnyBuffer<const void>& like,
                                           const std::function<void*(int from, std::size_t count)>& room);

template <class Messages>
using SparseData = std::remove_cvref_t<decltype(std::get<1>(
    std::declval<std::ranges::range_reference_t<const Messages>>()))>;

}  // namespace detail

/// Sends each message to its rank, and returns the messages that other ranks have sent to this one, ordered
/// by sender. No rank knows who sends to it, nor how much.
///
/// `messages` holds pairs of a group rank and a vector or view of elements of the same type on all ranks,
/// such as a `std::map<int, std::vector<T>>`. A rank may send to itself, several messages to one rank, or
/// none. Returns pairs of the sender's group rank and a vector.
///
/// A collective: every rank of the group calls it. Each message is one message of the engine. On MPI a
/// barrier ends the exchange, so a rank needs neither memory nor messages for ranks that it does not send
/// to. Elsewhere the ranks first reduce_scatter one count for each rank.
///
/// Throws UsageError for a rank that is not in the group, inside a batch, and on a device, where host() has
/// it. Before it receive all other messages of these ranks, which keep their order.
///
///     void migrate(Communicator& on, const std::map<int, std::vector<double>>& leaving,
///                  std::vector<double>& mine) {
///         for (const auto& [from, arrived] : sparse_all_to_all(on, leaving))
///             mine.insert(mine.end(), arrived.begin(), arrived.end());
///     }
template <std::ranges::input_range Messages>
    requires Element<std::ranges::range_value_t<detail::SparseData<Messages>>>
auto sparse_all_to_all(Communicator& on, const Messages& messages) {
    using T = std::ranges::range_value_t<detail::SparseData<Messages>>;
    const auto what = [] { return std::string("a message of sparse_all_to_all"); };
    auto sent = std::vector<detail::SparseMessage>{};
    for (const auto& [to, data] : messages)
        sent.push_back({Int(to), detail::any_buffer<const void>(data, what)});
    auto received = std::vector<std::pair<int, std::vector<T>>>{};
    const auto none = std::span<const T>();
    detail::run_sparse_all_to_all(on, sent, detail::any_buffer<const void>(none, what),
                                  [&](int from, std::size_t count) -> void* {
                                      return received.emplace_back(from, std::vector<T>(count)).second.data();
                                  });
    std::ranges::stable_sort(received, {}, &std::pair<int, std::vector<T>>::first);
    return received;
}

}  // namespace rankmesh
