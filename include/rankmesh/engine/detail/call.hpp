// SPDX-License-Identifier: Apache-2.0
// The call that a communicator makes on its engine: one operation on untyped buffers.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include <rankmesh/core/axis.hpp>
#include <rankmesh/engine/buffer.hpp>
#include <rankmesh/engine/detail/operation.hpp>
#include <rankmesh/engine/reduction.hpp>

namespace rankmesh::detail {

/// The `argument` of a recv or probe from any rank.
inline constexpr int any_source = std::numeric_limits<int>::min();

/// The arguments of one operation; `in_count` and `out_count` are in elements of `dtype`. In place `in` and
/// `out` are equal, or the shorter one is this rank's part of the longer one.
struct Call {
    Operation operation = Operation::barrier;
    DType dtype = DType::i32;
    Reduction reduction = Reduction::sum;
    Edge edge = Edge::wrap;
    int argument = 0;  ///< the root, the distance of a shift, the peer of a message
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t in_count = 0;
    std::size_t out_count = 0;
    int source = 0;  ///< the peer that a send_recv receives from
    Space in_space = Space::host;
    Space out_space = Space::host;
    std::uint16_t tag = 0;   ///< of a message
    std::size_t unit = 1;    ///< elements of `dtype` in one of the caller's, which the counts below are in
    std::uint32_t list = 0;  ///< of a list of buffers: a hash of their types and lengths, never 0
    const std::size_t* in_counts = nullptr;  ///< all_to_all_v, root of a scatter_v: by group rank
    const std::size_t* out_counts =
        nullptr;                         ///< all_gather_v, all_to_all_v, root of a gather_v: by group rank
    Stream stream = {};                  ///< on a device, the stream that orders the call
    const Function* function = nullptr;  ///< of a reduction by a function, never destroyed

    std::size_t in_bytes() const { return in_count * size_of(dtype); }
    std::size_t out_bytes() const { return out_count * size_of(dtype); }
    bool is_from_any() const {
        return argument == any_source && traits(operation).argument == Argument::peer;
    }
};

/// `all_reduce of 4 f32 by sum`: all that the ranks of a group must agree on, in the caller's elements.
std::string to_string(const Call& call);

/// The caller's elements in `count` elements of `dtype`, `unit` of them in one of the caller's: `4 f32`,
/// `4 complex f32`, `4 elements of 24 bytes`.
std::string elements_text(std::size_t count, DType dtype, std::size_t unit);

/// ` with tag 3`; "" for 0.
std::string tag_text(int tag);
/// `, a list of layout 1f00ba7`: lists of equal sums have different layouts. "" if the call has no list.
std::string list_text(std::uint32_t list);

}  // namespace rankmesh::detail
