// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/communicator.hpp>

#include <exception>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/channel.hpp"
#include "engine/words.hpp"

namespace rankmesh {

namespace detail {

std::string to_string(const Call& call) {
    auto text = std::string(to_string(call.operation));
    if (call.operation == Operation::barrier) return text;
    append(text, cat(" of ", call.in_count, " ", to_string(call.dtype)));
    if (call.operation == Operation::all_reduce || call.operation == Operation::reduce_scatter)
        append(text, cat(" by ", to_string(call.reduction)));
    if (call.operation == Operation::broadcast) append(text, cat(" from ", call.argument));
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

void Channel::Use::throw_in_use(const Label& label) {
    throw Misuse(cat(
        "two threads use ", label.text(),
        " at once; one thread at a time may, declare another channel with .separate(\"name\") to overlap"));
}

namespace {

[[noreturn]] void wrong_length(const Call& call, int size, const Label& label, std::string_view rule) {
    throw Misuse(cat(to_string(call.operation), " on ", label.text(), " (", size, " ranks) was given ",
                     call.in_count, " elements in and ", call.out_count, " out; ", rule));
}

bool overlap(const Call& call) {
    const auto in = reinterpret_cast<std::uintptr_t>(call.in);
    const auto out = reinterpret_cast<std::uintptr_t>(call.out);
    return in < out + call.out_bytes() && out < in + call.in_bytes();
}

}  // namespace

void check(const Call& call, int size, const Label& label) {
    const auto n = static_cast<std::size_t>(size);
    switch (call.operation) {
        case Operation::all_reduce:
            if (call.in_count != call.out_count) wrong_length(call, size, label, "both must be equal");
            break;
        case Operation::all_gather:
            if (call.out_count != call.in_count * n)
                wrong_length(call, size, label, cat("out must hold ", call.in_count * n));
            break;
        case Operation::reduce_scatter:
            if (call.in_count != call.out_count * n)
                wrong_length(call, size, label, cat("in must hold ", call.out_count * n));
            break;
        case Operation::broadcast:
            if (call.argument < 0 || call.argument >= size)
                throw Misuse(cat("broadcast on ", label.text(), " from position ", call.argument,
                                 "; positions are 0..", size - 1));
            return;
        case Operation::all_to_all:
            if (call.in_count != call.out_count || call.in_count % n != 0)
                wrong_length(call, size, label, cat("both must be equal, and a multiple of ", size));
            break;
        case Operation::shift:
            if (call.in_count != call.out_count) wrong_length(call, size, label, "both must be equal");
            break;
        case Operation::barrier:
            return;
    }
    const auto in_place = call.operation == Operation::all_reduce && call.in == call.out;
    if (!in_place && overlap(call))
        throw Misuse(cat(to_string(call.operation), " on ", label.text(),
                         " was given buffers that overlap; use two",
                         call.operation == Operation::all_reduce ? ", or one in place" : ""));
}

}  // namespace detail

detail::Line& Communicator::line() const {
    if (!line_) throw Misuse("this communicator was moved from; ask the member for another with on(...)");
    return *line_;
}

int Communicator::rank() const { return line().rank; }
int Communicator::size() const { return line().size; }
std::string Communicator::label() const { return line().label->text(); }
std::vector<int> Communicator::world_ranks() const { return line().label->ranks.list(); }

int Communicator::world_rank(int position) const {
    if (position < 0 || position >= size())
        throw Misuse(detail::cat("position ", position, " of ", label(), "; positions are 0..", size() - 1));
    return line().label->ranks[position];
}

Communicator Communicator::within(std::chrono::nanoseconds deadline) const {
    detail::check_deadline(deadline);
    auto own = std::make_shared<detail::Line>(line());
    own->deadline = deadline;
    return Communicator(std::move(own));
}

void Communicator::run(const detail::Call& call) {
    auto& line = this->line();
    detail::check(call, line.size, *line.label);
    const auto use = detail::Channel::Use(*line.channel, *line.label);
    line.channel->run(call, *line.label, line.deadline);
}

Pending Communicator::start(const detail::Call& call) {
    auto& line = this->line();
    detail::check(call, line.size, *line.label);
    const auto use = detail::Channel::Use(*line.channel, *line.label);
    return Pending(line_, line.channel->start(call, *line.label));
}

}  // namespace rankmesh
