// SPDX-License-Identifier: Apache-2.0
#include "engine/channel.hpp"

#include <utility>

#include <rankmesh/core/text.hpp>

namespace rankmesh::detail {

std::string to_string(const Call& call) {
    auto text = std::string(to_string(call.operation));
    const auto dtype = to_string(call.dtype);
    switch (call.operation) {
        case Operation::barrier:
        case Operation::monitored_barrier:
            return text;
        case Operation::recv:
            return cat(text, " of ", call.out_count, " ", dtype, " from ", call.argument);
        case Operation::send_recv:
            append(text, cat(" of ", call.in_count, " ", dtype, " to ", call.argument));
            if (call.source >= 0) append(text, cat(" and ", call.out_count, " from ", call.source));
            return text;
        case Operation::scatter:
            return cat(text, " of ", call.out_count, " ", dtype, " from ", call.argument);
        default:
            append(text, cat(" of ", call.in_count, " ", dtype));
    }
    if (reduces(call.operation)) append(text, cat(" by ", to_string(call.reduction)));
    if (call.operation == Operation::broadcast) append(text, cat(" from ", call.argument));
    if (call.operation == Operation::reduce || call.operation == Operation::gather ||
        call.operation == Operation::send)
        append(text, cat(" to ", call.argument));
    if (call.operation == Operation::shift)
        append(text, cat(" by ", call.argument, call.edge == Edge::open ? " with open edges" : ""));
    return text;
}

std::vector<int> Ranks::list() const {
    auto list = std::vector<int>(static_cast<std::size_t>(size()));
    for (int i = 0; i < size(); ++i) list[static_cast<std::size_t>(i)] = (*this)[i];
    return list;
}

std::string to_string(const Ranks& ranks) {
    return ranks.placed ? ranks_to_string(ranks.list()) : to_string(ranks.group);
}

std::string Label::text() const {
    return name.empty() ? cat("'", axes, "' of mesh ", mesh) : cat("'", axes, "' of mesh '", name, "'");
}

void Channel::throw_not_idle(const Label& label) const {
    const auto now = state();
    if (now == State::failed) std::rethrow_exception(failure_);
    if (now == State::collecting && collector_ == std::this_thread::get_id())
        throw Misuse(cat("a batch on ", label.text(),
                         " is being collected; inside it call send, recv and send_recv, and nothing else on "
                         "its channel"));
    throw Misuse(cat(
        "two threads use ", label.text(),
        " at once; one thread at a time may, declare another channel with .separate(\"name\") to overlap"));
}

void Channel::begin_batch(const Label& label) {
    if (state() != State::idle) throw_not_idle(label);
    batch_.clear();
    collector_ = std::this_thread::get_id();
    state_.store(State::collecting, std::memory_order_release);
}

void Channel::add_to_batch(const Call& call, const Label& label) {
    if (collector_ != std::this_thread::get_id() || !is_point_to_point(call.operation)) throw_not_idle(label);
    batch_.push_back(call);
}

std::vector<Call> Channel::end_batch() {
    state_.store(State::idle, std::memory_order_release);
    return std::exchange(batch_, {});
}

Staging Channel::staging(std::size_t bytes) {
    auto own = std::exchange(staging_, {});
    if (own.bytes >= bytes) return own;
    own.data = nullptr;  // before there are two
    return {std::make_unique_for_overwrite<char[]>(bytes), bytes};
}

}  // namespace rankmesh::detail
