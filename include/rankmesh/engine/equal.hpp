// SPDX-License-Identifier: Apache-2.0
// unequal, the ranks of a group whose elements are not those of the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <rankmesh/engine/communicator.hpp>

namespace rankmesh {

namespace detail {

inline std::vector<int> unequal(Communicator& on, const AnyBuffer<const void>& in) {
    const auto bytes = std::string_view(static_cast<const char*>(in.data), in.count * size_of(in.dtype));
    const auto mine =
        std::uint64_t{std::hash<std::string_view>{}(bytes)} * 31 + static_cast<unsigned>(in.dtype);
    auto hashes = std::vector<std::uint64_t>(static_cast<std::size_t>(on.size()));
    on.host().all_gather(mine, hashes);
    const auto times = [&](std::uint64_t hash) { return std::ranges::count(hashes, hash); };
    auto odd = std::vector<int>{};
    if (times(mine) == on.size()) return odd;
    const auto usual = *std::ranges::max_element(hashes, {}, times);
    for (std::size_t i = 0; i < hashes.size(); ++i)
        if (hashes[i] != usual) odd.push_back(static_cast<int>(i));
    return odd;
}

}  // namespace detail

/// Returns the group ranks whose `in` differs from the most frequent one in a bit, the length or the type. Of
/// equally frequent ones, that of the lowest rank counts. The list is empty if all are equal.
///
/// `in` is in host memory. A collective: one all_gather of a hash of 64 bits, so one difference in 2^64 is
/// not seen. All ranks run the same build.
///
///     void find_drifted(Communicator& dp, std::span<const float> weights, std::vector<int>& drifted) {
///         drifted = unequal(dp, weights);
///     }
template <class T>
    requires Element<std::remove_const_t<T>>
std::vector<int> unequal(Communicator& on, std::span<T> in) {
    return detail::unequal(on, detail::any_buffer<const void>(in, [] { return "the input of unequal"; }));
}

}  // namespace rankmesh
