// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/communicator.hpp>

#include <algorithm>
#include <utility>

#include "engine/channel.hpp"
#include "engine/packed.hpp"
#include "engine/words.hpp"

namespace rankmesh {

using detail::cat;
using Op = detail::Operation;

namespace {

// What throws stands apart from what is run every time.

[[noreturn]] void throw_moved_from() {
    throw Misuse("this communicator was moved from; ask the member for another with on(...)");
}

[[noreturn]] void throw_self(const detail::Call& call, const detail::Line& line) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " between position ", line.rank,
                     " and itself would wait for ever; call both sides as one, by send_recv or in a batch"));
}

[[noreturn]] void throw_counts(const detail::Call& call, const detail::Line& line, std::size_t given) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " was given ", given,
                     " counts; it takes one a member, ", line.size));
}

[[noreturn]] void throw_no_multiple(const detail::Call& call, const detail::Line& line, std::size_t given) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " in place was given ", given,
                     " elements; it takes a multiple of ", line.size));
}

/// Throws Misuse for a message to oneself that nobody can be receiving.
void check_not_self(const detail::Call& call, const detail::Line& line) {
    if (!detail::is_point_to_point(call.operation)) return;
    const auto to_self = call.argument == line.rank;
    if (call.operation == Op::send_recv ? to_self == (call.source == line.rank) : !to_self) return;
    throw_self(call, line);
}

/// Makes each send to oneself in a batch one with the recv that it meets.
void join_with_self(std::vector<detail::Call>& calls, const detail::Line& line) {
    const auto is_self = [&](const detail::Call& call) {
        return call.operation != Op::send_recv && call.argument == line.rank;
    };
    if (std::ranges::none_of(calls, is_self)) return;
    auto rest = std::vector<detail::Call>{};
    auto sends = std::vector<detail::Call>{};
    auto receives = std::vector<detail::Call>{};
    for (const auto& call : calls)
        (!is_self(call) ? rest : call.operation == Op::send ? sends : receives).push_back(call);
    if (sends.size() != receives.size())
        throw Misuse(cat("a batch on ", line.label->text(), " has ", sends.size(), " sends to position ",
                         line.rank, " itself and ", receives.size(), " recvs from it; they must meet"));
    for (std::size_t i = 0; i < sends.size(); ++i) {
        auto call = sends[i];
        if (call.dtype != receives[i].dtype || call.in_count != receives[i].out_count)
            throw Misuse(cat("a batch on ", line.label->text(), " sends ", call.in_count, " ",
                             to_string(call.dtype), " to itself and receives ", receives[i].out_count, " ",
                             to_string(receives[i].dtype)));
        call.operation = Op::send_recv;
        call.source = line.rank;
        call.out = receives[i].out;
        call.out_count = receives[i].out_count;
        detail::check(call, line);
        rest.push_back(call);
    }
    calls = std::move(rest);
}

}  // namespace

detail::Line& Communicator::line() const {
    if (!line_) throw_moved_from();
    return *line_;
}

int Communicator::rank() const { return line().rank; }
int Communicator::size() const { return line().size; }
std::string Communicator::label() const { return line().label->text(); }
std::vector<int> Communicator::world_ranks() const { return line().label->ranks.list(); }
Space Communicator::space() const { return line().space; }

int Communicator::world_rank(int position) const {
    if (position < 0 || position >= size())
        throw Misuse(cat("position ", position, " of ", label(), "; positions are 0..", size() - 1));
    return line().label->ranks[position];
}

std::optional<int> Communicator::position_of(int world_rank) const {
    const auto& ranks = line().label->ranks;
    if (!ranks.placed) return ranks.group.position(world_rank);
    for (int i = 0; i < ranks.size(); ++i)
        if (ranks[i] == world_rank) return i;
    return std::nullopt;
}

Communicator Communicator::within(std::chrono::nanoseconds deadline) const {
    detail::check_deadline(deadline);
    auto own = std::make_shared<detail::Line>(line());
    own->deadline = deadline;
    if (own->host) {
        own->host = std::make_shared<detail::Line>(*own->host);
        own->host->deadline = deadline;
    }
    return Communicator(std::move(own));
}

Communicator Communicator::host() const { return Communicator(line().host ? line().host : line_); }

Communicator Communicator::on(Stream stream) const {
    if (line().space != Space::device)
        throw Misuse(cat(label(), " works on host memory, where no streams are; join a world with a device"));
    auto own = std::make_shared<detail::Line>(line());
    own->stream = stream;
    return Communicator(std::move(own));
}

const detail::Call& Communicator::counted(detail::Call&& call, std::span<const std::size_t> in_counts,
                                          std::span<const std::size_t> out_counts, std::size_t unit) const {
    const auto& line = this->line();
    const auto n = static_cast<std::size_t>(line.size);
    if (in_counts.size() != n) throw_counts(call, line, in_counts.size());
    if (out_counts.size() != n) throw_counts(call, line, out_counts.size());
    call.in_counts = in_counts.data();
    call.out_counts = out_counts.data();
    call.unit = unit;
    return call;
}

const detail::Call& Communicator::own_part_in(detail::Call&& call) const {
    const auto& line = this->line();
    const auto n = static_cast<std::size_t>(line.size);
    if (call.out_count % n != 0) throw_no_multiple(call, line, call.out_count);
    call.in_count = call.out_count / n;
    call.in = static_cast<const char*>(call.in) + static_cast<std::size_t>(line.rank) * call.in_bytes();
    return call;
}

const detail::Call& Communicator::own_part_out(detail::Call&& call) const {
    const auto& line = this->line();
    const auto n = static_cast<std::size_t>(line.size);
    if (call.in_count % n != 0) throw_no_multiple(call, line, call.in_count);
    call.out_count = call.in_count / n;
    call.out = static_cast<char*>(call.out) + static_cast<std::size_t>(line.rank) * call.out_bytes();
    return call;
}

void Communicator::run(const detail::Call& given) {
    auto& line = this->line();
    detail::check(given, line);
    if (line.channel->state() == detail::Channel::State::collecting)
        return line.channel->add_to_batch(given, *line.label);
    check_not_self(given, line);
    const auto use = detail::Channel::Use(*line.channel, *line.label);
    if (line.space == Space::host) return line.channel->run(given, *line.label, line.deadline);
    auto call = given;
    call.stream = line.stream;
    line.channel->run(call, *line.label, line.deadline);
}

Pending Communicator::start(const detail::Call& given) {
    auto& line = this->line();
    detail::check(given, line);
    check_not_self(given, line);
    const auto use = detail::Channel::Use(*line.channel, *line.label);
    if (line.space == Space::host) return Pending(line_, line.channel->start({&given, 1}, *line.label));
    auto call = given;
    call.stream = line.stream;
    return Pending(line_, line.channel->start({&call, 1}, *line.label));
}

std::shared_ptr<detail::Line> Communicator::begin_batch() const {
    line().channel->begin_batch(*line_->label);
    return line_;
}
void Communicator::drop_batch(detail::Line& line) noexcept { line.channel->end_batch(); }

/// The calls of the batch that this thread collected, ready for the channel.
std::vector<detail::Call> Communicator::collected(detail::Line& line) {
    auto calls = line.channel->end_batch();
    join_with_self(calls, line);
    for (auto& call : calls) {
        check_not_self(call, line);
        call.stream = line.stream;
    }
    return calls;
}

void Communicator::run_batch(const std::shared_ptr<detail::Line>& held) {
    auto& line = *held;
    if (line.space == Space::device) return start_batch(held).wait();
    auto calls = collected(line);
    if (calls.empty()) return;
    const auto use = detail::Channel::Use(*line.channel, *line.label);
    const auto ticket = line.channel->start(calls, *line.label);
    line.channel->reuse(std::move(calls));
    line.channel->wait(ticket, *line.label, line.deadline);
}

Pending Communicator::start_batch(const std::shared_ptr<detail::Line>& held) {
    auto& line = *held;
    auto calls = collected(line);
    if (calls.empty()) return {};
    const auto use = detail::Channel::Use(*line.channel, *line.label);
    const auto ticket = line.channel->start(calls, *line.label);
    line.channel->reuse(std::move(calls));
    return Pending(held, ticket);
}

Pending Communicator::start_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                                 const ListOptions& options) {
    auto& line = this->line();
    auto packed = std::make_unique<detail::Packed>(like, ins, outs, options, line);
    if (packed->empty()) return {};
    const auto use = detail::Channel::Use(*line.channel, *line.label);
    auto calls = packed->pack(line);
    for (auto& call : calls) call.stream = line.stream;
    const auto ticket = line.channel->start(calls, *line.label);
    return Pending(line_, ticket, std::move(packed));
}

void Communicator::run_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                            const ListOptions& options) {
    auto& line = this->line();
    if (line.space == Space::device) return start_list(like, ins, outs, options).wait();
    auto packed = detail::Packed(like, ins, outs, options, line);
    const auto use = detail::Channel::Use(*line.channel, *line.label);
    packed.run(line);
}

}  // namespace rankmesh
