// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <rankmesh/engine/detail/call.hpp>

#include "engine/roles.hpp"

namespace rankmesh::detail {

/// What the ranks of a group must agree on in a collective, without padding.
struct Agreed {
    Operation operation = Operation::barrier;
    DType dtype = DType::i32;
    Reduction reduction = Reduction::sum;
    Edge edge = Edge::wrap;
    std::int32_t argument = 0;
    std::uint64_t length = 0;  // that is the same on all ranks, 0 with counts
    std::uint32_t list = 0;    // as in a Call
    std::uint32_t tag = 0;     // of a message

    static Agreed of(const Call& call) {
        const auto& operation = traits(call.operation);
        auto agreed =
            Agreed{.operation = call.operation, .length = operation.counts ? 0 : common_length(call)};
        if (call.operation == Operation::barrier) return agreed;
        agreed.dtype = call.dtype;
        agreed.list = call.list;
        if (operation.reduces) agreed.reduction = call.reduction;
        if (operation.argument == Argument::distance) agreed.edge = call.edge;
        if (operation.argument != Argument::none) agreed.argument = call.argument;
        return agreed;
    }
    std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};
static_assert(sizeof(Agreed) == 24);

/// `all_reduce of 4 f32 by sum`, `gather_v of f32 to 2`; `unit` as in a Call.
inline std::string to_string(const Agreed& agreed, std::uint64_t unit) {
    const auto& operation = traits(agreed.operation);
    if (operation.counts)
        return cat(to_string(agreed.operation), " of ", to_string(agreed.dtype),
                   operation.argument == Argument::none
                       ? std::string{}
                       : cat(" ", preposition(agreed.operation), " ", agreed.argument));
    auto call = Call{.operation = agreed.operation,
                     .dtype = agreed.dtype,
                     .reduction = agreed.reduction,
                     .edge = agreed.edge,
                     .argument = agreed.argument,
                     .unit = unit};
    call.in_count = call.out_count = agreed.length;
    return to_string(call) + list_text(agreed.list);
}

}  // namespace rankmesh::detail
