// SPDX-License-Identifier: Apache-2.0
// What is compared by itself, and what members say of it.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// The name of a member, cut to what fits.
struct MemberText {
    char text[48] = {};
    static MemberText of(const Label& label);
};

/// What the two ends of a message tell each other.
struct Notice {
    std::uint8_t receives = 0;
    DType dtype = DType::i32;
    std::uint64_t count = 0;
    MemberText member = {};
};

/// A collective, or half of a message, from its call until it has been handed to the engine and is over.
struct CheckedCall {
    Call call;  // a send, a recv, or what all members call
    const Label* label;
    std::uint64_t number;  // among this member's collectives, or its messages
    std::vector<std::size_t> in_counts = {};
    std::vector<std::size_t> out_counts = {};
    bool settled = false;                                // it matches, or `error` says why it goes no further
    std::exception_ptr error = nullptr;                  // what its wait throws
    std::optional<std::uint64_t> ticket = std::nullopt;  // of the engine, once it has it
    Notice notice = {};
    std::optional<std::uint64_t> telling = std::nullopt;  // the ticket of the notice

    /// `all_reduce of 4 f32 by sum, call number 3`.
    std::string text() const;
};

/// Calls `body` with a call, or with the two halves of a message each way: those go their own ways, as halves
/// of others do. One to this member itself stays whole.
template <class Body>
void each_half(const Call& call, int group_rank, Body&& body) {
    if (call.operation != Operation::send_recv || call.argument == group_rank) return body(call);
    auto half = call;
    half.operation = Operation::recv;
    half.argument = call.source;
    body(half);
    half.operation = Operation::send;
    half.argument = call.argument;
    body(half);
}

}  // namespace rankmesh::detail
