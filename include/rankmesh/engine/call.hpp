// SPDX-License-Identifier: Apache-2.0
// What a communicator hands to its engine: one operation, on bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <rankmesh/core/axis.hpp>
#include <rankmesh/engine/buffer.hpp>
#include <rankmesh/engine/reduction.hpp>

namespace rankmesh::detail {

enum class Operation : std::uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    broadcast,
    all_to_all,
    shift,
    barrier
};

constexpr std::string_view to_string(Operation operation) {
    constexpr std::string_view names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                          "all_to_all", "shift",      "barrier"};
    return names[static_cast<std::size_t>(operation)];
}

/// Counts are elements of `dtype`; an operation in place has in == out.
struct Call {
    Operation operation = Operation::barrier;
    DType dtype = DType::i32;
    Reduction reduction = Reduction::sum;
    Edge edge = Edge::wrap;
    int argument = 0;  ///< the root of a broadcast, the distance of a shift
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t in_count = 0;
    std::size_t out_count = 0;

    std::size_t in_bytes() const { return in_count * size_of(dtype); }
    std::size_t out_bytes() const { return out_count * size_of(dtype); }
};

/// `all_reduce of 4 f32 by sum`: all that the members of a group must agree on.
std::string to_string(const Call& call);

}  // namespace rankmesh::detail
