// SPDX-License-Identifier: Apache-2.0
// A call in checked mode, from its start until the engine has completed it.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/owned_call.hpp"

namespace rankmesh::detail {

/// What two ranks tell each other. `send` and `recv`: the type, length and tag of a message, by its sender
/// and its receiver. `refusal`: this rank waits in collective `number`, and calls nothing before it is over.
/// `question`: the receiver answers with a refusal once it waits in a collective. `end`: nothing more.
struct Notice {
    enum Kind : std::uint8_t { send, recv, refusal, question, end };
    Kind kind = send;
    DType dtype = DType::i32;
    std::uint16_t tag = 0;
    std::uint32_t unused = 0;
    std::uint64_t count = 0;  // in elements of `dtype`
    std::uint64_t unit = 1;
    std::uint64_t number = 0;  // of a message: among those of its kind to the same rank
};

/// A collective, or the send or receive of a message, in checked mode.
struct CheckedCall {
    OwnedCall call;  // a collective, a send or a recv
    const Label* label;
    std::uint64_t number = 0;            // among this member's collectives, or its messages
    bool blocks = false;                 // its caller runs it on the engine once it is settled
    bool meets = false;                  // a message that is compared with the collective of its peers
    bool settled = false;                // the calls match, or `error` says why they do not
    bool complete = false;               // its data came with the comparison
    std::exception_ptr error = nullptr;  // what its wait throws
    std::optional<std::uint64_t> ticket = std::nullopt;  // of the engine, once the engine has the call
    Notice notice = {};
    std::optional<std::uint64_t> notice_ticket = std::nullopt;  // the ticket of the notice
    std::uint64_t notice_order = 0;                             // among all notices to that rank
    bool from_any = false;  // a recv from any rank; once its sender is known, `call` is from that

    bool is_collective() const { return meets || !is_point_to_point(call.operation); }
    /// `all_reduce of 4 f32 by sum, call number 3`.
    std::string text() const;
};

/// Calls `body` with the call, or with the recv and the send of a send_recv: they are compared with different
/// peers. A send_recv of a rank with itself stays one call.
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
