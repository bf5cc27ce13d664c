// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/communicator.hpp>

#include "engine/access.hpp"
#include "engine/channel.hpp"
#include "engine/exact_sum.hpp"
#include "engine/memory_layout.hpp"
#include "engine/packed.hpp"
#include "engine/record/recorded.hpp"
#include "engine/timeout.hpp"

namespace rankmesh {

using detail::cat;
using Op = detail::Operation;

namespace {

[[noreturn]] void throw_moved_from() {
    throw UsageError("this communicator was moved from; ask the member for another with on(...)");
}

void check_number_of(const detail::Counts& counts, const detail::Call& call,
                     const detail::CommunicatorState& state) {
    if (counts.list().size() != static_cast<std::size_t>(state.size))
        refuse_call(call, state, " was given ", counts.list().size(), " counts; it takes one a member, ",
                    state.size);
}

/// Throws UsageError for a message to this rank itself outside a batch, where nothing can receive it.
void check_not_self(const detail::Call& call, const detail::CommunicatorState& state) {
    if (!detail::is_point_to_point(call.operation)) return;
    const auto to_self = call.argument == state.rank;
    if (call.operation == Op::send_recv ? to_self == (call.source == state.rank) : !to_self) return;
    refuse_call(call, state, " between group rank ", state.rank,
                " and itself would wait for ever; call both sides as one, by send_recv or in a batch");
}

/// Merges each send to this rank itself in a batch with the recv that it matches.
void join_with_self(std::vector<detail::Call>& calls, const detail::CommunicatorState& state) {
    const auto is_self = [&](const detail::Call& call) {
        return call.operation != Op::send_recv && call.argument == state.rank;
    };
    if (std::ranges::none_of(calls, is_self)) return;
    auto rest = std::vector<detail::Call>{};
    auto sends = std::vector<detail::Call>{};
    auto receives = std::vector<detail::Call>{};
    for (const auto& call : calls)
        (!is_self(call) ? rest : call.operation == Op::send ? sends : receives).push_back(call);
    if (sends.size() != receives.size())
        throw UsageError(cat("a batch on ", state.label->text(), " has ", sends.size(),
                             " sends to group rank ", state.rank, " itself and ", receives.size(),
                             " recvs from it; they must match"));
    for (std::size_t i = 0; i < sends.size(); ++i) {
        auto call = sends[i];
        if (call.dtype != receives[i].dtype || call.in_count != receives[i].out_count ||
            call.tag != receives[i].tag)
            throw UsageError(cat("a batch on ", state.label->text(), " sends ", call.in_count, " ",
                                 to_string(call.dtype), detail::tag_text(call.tag, receives[i].tag),
                                 " to itself and receives ", receives[i].out_count, " ",
                                 to_string(receives[i].dtype), detail::tag_text(receives[i].tag, call.tag)));
        call.operation = Op::send_recv;
        call.source = state.rank;
        call.out = receives[i].out;
        call.out_count = receives[i].out_count;
        detail::check(call, state);
        rest.push_back(call);
    }
    calls = std::move(rest);
}

/// The elements of a buffer one after the other: where they are, else copied to `packed`.
const void* contiguous(const detail::AnyBuffer<const void>& buffer, const detail::MemoryLayout& layout,
                       std::vector<char>& packed) {
    if (layout.is_contiguous()) return buffer.data;
    packed.resize(buffer.count * size_of(buffer.dtype));
    detail::pack(layout, static_cast<const char*>(buffer.data), packed.data());
    return packed.data();
}

/// Starts calls as one operation, inside a use of the channel; `staged` has their strided or packed buffers.
Pending start_all(const std::shared_ptr<detail::CommunicatorState>& held, std::span<const detail::Call> calls,
                  std::unique_ptr<detail::Staged>&& staged) {
    auto ticket = std::uint64_t{};
    const auto record =
        detail::recorded_start(*held, calls, [&] { ticket = held->channel->start(calls, *held->label); });
    return detail::Access::pending(held, ticket, record, std::move(staged));
}

/// The call on contiguous buffers that a call on views is which lie so.
detail::Call contiguous(const detail::StridedCall& given, const detail::CommunicatorState& state) {
    auto call = detail::Call(given);
    if (given.own_part) detail::take_own_part(call, state);
    return call;
}
bool is_contiguous(const detail::StridedCall& call) {
    return call.in_layout.is_contiguous() && call.out_layout.is_contiguous();
}

}  // namespace

detail::CommunicatorState& Communicator::state() const {
    if (!state_) throw_moved_from();
    return *state_;
}

int Communicator::rank() const { return state().rank; }
int Communicator::size() const { return state().size; }
std::string Communicator::label() const { return state().label->text(); }
std::vector<int> Communicator::world_ranks() const { return state().label->ranks.list(); }
Space Communicator::space() const { return state().space; }

int Communicator::world_rank(Int group_rank) const {
    if (group_rank < 0 || group_rank >= size())
        throw UsageError(
            cat("group rank ", int{group_rank}, " of ", label(), "; group ranks are 0..", size() - 1));
    return state().label->ranks[group_rank];
}

std::optional<int> Communicator::group_rank_of(Int world_rank) const {
    const auto& ranks = state().label->ranks;
    if (!ranks.placed) return ranks.group.group_rank(world_rank);
    for (int i = 0; i < ranks.size(); ++i)
        if (ranks[i] == world_rank) return i;
    return std::nullopt;
}

Communicator Communicator::within(std::chrono::nanoseconds timeout) const {
    detail::check_timeout(timeout);
    auto own = std::make_shared<detail::CommunicatorState>(state());
    own->timeout = timeout;
    if (own->host) {
        own->host = std::make_shared<detail::CommunicatorState>(*own->host);
        own->host->timeout = timeout;
    }
    return Communicator(std::move(own));
}

Communicator Communicator::host() const { return Communicator(state().host ? state().host : state_); }

Communicator Communicator::on(Stream stream) const {
    if (state().space != Space::device)
        throw UsageError(
            cat(label(), " works on host memory, where no streams are; join a world with a device"));
    auto own = std::make_shared<detail::CommunicatorState>(state());
    own->stream = stream;
    return Communicator(std::move(own));
}

/// Throws UsageError while a batch is collected, which cannot return what the call would.
static void check_no_batch(std::string_view call, const detail::CommunicatorState& state) {
    if (state.channel->state() == detail::Channel::State::collecting)
        throw UsageError(cat(call, " on ", state.label->text(),
                             " in a batch, which cannot say whose message it is; call it before or after"));
}

Communicator Communicator::for_object(std::string_view call, int peer) const {
    if (peer == rank())
        throw UsageError(cat(call, " on ", label(), " between group rank ", peer,
                             " and itself would wait for ever; copy the object"));
    return host();
}

void Communicator::set_counts(detail::Call& call, const detail::Counts& in_counts,
                              const detail::Counts& out_counts) const {
    for (const auto* counts : {&in_counts, &out_counts}) check_number_of(*counts, call, state());
    call.in_counts = in_counts.list().data();
    call.out_counts = out_counts.list().data();
}

void Communicator::set_counts_at_root(detail::Call& call, const detail::Counts& counts) const {
    if (call.argument != state().rank) return;
    check_number_of(counts, call, state());
    (traits(call.operation).in_parts ? call.in_counts : call.out_counts) = counts.list().data();
}

void Communicator::take_own_part(detail::Call& call) const { detail::take_own_part(call, state()); }

double Communicator::sum_reproducibly(const detail::AnyBuffer<const void>& x,
                                      const std::optional<detail::AnyBuffer<const void>>& y,
                                      const detail::MemoryLayout& x_layout,
                                      const detail::MemoryLayout& y_layout) const {
    const auto refuse = [&](const std::string& why) {
        throw UsageError(
            cat(y ? "reproducible_dot" : "reproducible_sum", " on ", label(), " was given ", why));
    };
    if (x.space != Space::host || (y && y->space != Space::host))
        refuse("device memory; it sums host memory: copy it there");
    if (!is_floating(x.dtype) || x.unit != 1)
        refuse(
            cat(detail::elements_text(x.count, x.dtype, x.unit),
                "; it sums f16, bf16, f32 and f64, and sums of integers are reproducible in an all_reduce"));
    if (y && (y->dtype != x.dtype || y->unit != 1))
        refuse(cat(to_string(x.dtype), " and ", to_string(y->dtype), " elements; both must be of one type"));
    if (y && y->count != x.count) refuse(cat(x.count, " and ", y->count, " elements; both must be equal"));
    std::vector<char> packed[2];
    const auto* elements = contiguous(x, x_layout, packed[0]);
    auto exact = detail::ExactSum{};
    if (y)
        exact.add_products(x.dtype, elements, contiguous(*y, y_layout, packed[1]), x.count);
    else
        exact.add(x.dtype, elements, x.count);
    host().all_reduce(exact.integers());
    return exact.rounded(x.dtype);
}

void Communicator::perform(const detail::Call& given) {
    auto& state = this->state();
    detail::check(given, state);
    if (state.channel->state() == detail::Channel::State::collecting)
        return state.channel->add_to_batch(given, *state.label);
    check_not_self(given, state);
    const auto use = detail::Channel::Use(*state.channel, *state.label);
    if (state.space == Space::host)
        return detail::recorded(state, given,
                                [&] { state.channel->run(given, *state.label, state.timeout); });
    auto call = given;
    call.stream = state.stream;
    detail::recorded_start(state, {&call, 1}, [&] { state.channel->run(call, *state.label, state.timeout); });
}

int Communicator::perform_from_any(const detail::Call& call) {
    auto& state = this->state();
    check_no_batch("recv from any rank", state);
    detail::check(call, state);
    const auto use = detail::Channel::Use(*state.channel, *state.label);
    auto sender = -1;
    detail::recorded_message(state, call, [&] {
        state.channel->run(call, *state.label, state.timeout);
        return sender = state.channel->take_sender();
    });
    return sender;
}

std::optional<Message> Communicator::run_probe(int from, Tag tag, bool waits) {
    auto& state = this->state();
    const auto call = detail::Call{.operation = Op::probe, .argument = from, .tag = tag.number()};
    check_no_batch("probe", state);
    if (state.space == Space::device)
        refuse_call(call, state, " of messages between devices, whose engine has none; host() has");
    detail::check_buffers(call, state);
    check_not_self(call, state);
    return detail::run_probe(state, call, waits);
}

std::optional<Message> detail::run_probe(CommunicatorState& state, const Call& call, bool waits) {
    const auto use = Channel::Use(*state.channel, *state.label);
    if (!waits) return state.channel->probe(call, *state.label, std::nullopt);
    auto found = std::optional<Message>{};
    recorded_message(state, call, [&] {
        found = state.channel->probe(call, *state.label, state.timeout);
        if (!found) throw EngineFailure("this engine does not tell which messages wait");
        return found->from;
    });
    return found;
}

Pending Communicator::start(const detail::Call& given) {
    auto& state = this->state();
    detail::check(given, state);
    check_not_self(given, state);
    const auto use = detail::Channel::Use(*state.channel, *state.label);
    if (state.space == Space::host) return start_all(state_, {&given, 1}, nullptr);
    auto call = given;
    call.stream = state.stream;
    return start_all(state_, {&call, 1}, nullptr);
}

void Communicator::perform(const detail::StridedCall& given) {
    auto& state = this->state();
    if (is_contiguous(given)) return perform(contiguous(given, state));
    detail::check_strided(given, state);
    if (state.channel->state() == detail::Channel::State::collecting)
        return state.channel->add_to_batch(given, *state.label);
    check_not_self(given, state);
    const auto use = detail::Channel::Use(*state.channel, *state.label);
    auto call = detail::Call{};
    auto buffers = detail::StridedBuffers(1);
    buffers.add(given, call, state);
    buffers.pack(state);
    detail::recorded(state, call, [&] { state.channel->run(call, *state.label, state.timeout); });
    buffers.unpack(state);
}

Pending Communicator::start(const detail::StridedCall& given) {
    auto& state = this->state();
    if (is_contiguous(given)) return start(contiguous(given, state));
    detail::check_strided(given, state);
    check_not_self(given, state);
    const auto use = detail::Channel::Use(*state.channel, *state.label);
    auto call = detail::Call{};
    auto buffers = std::make_unique<detail::StridedBuffers>(1);
    buffers->add(given, call, state);
    buffers->pack(state);
    return start_all(state_, {&call, 1}, std::move(buffers));
}

int Communicator::perform_from_any(const detail::StridedCall& given) {
    if (is_contiguous(given)) return perform_from_any(contiguous(given, state()));
    auto pending = start(given);
    pending.wait();
    return pending.sender();
}

std::shared_ptr<detail::CommunicatorState> Communicator::begin_batch() const {
    state().channel->begin_batch(*state_->label);
    return state_;
}
void Communicator::drop_batch(detail::CommunicatorState& state) noexcept { state.channel->end_batch(); }

/// The calls of the batch that this thread collected, ready for the channel. Sets `staged` where they have
/// strided buffers.
std::vector<detail::Call> Communicator::collected(detail::CommunicatorState& state,
                                                  std::unique_ptr<detail::Staged>& staged) {
    auto calls = state.channel->end_batch();
    if (const auto strided = state.channel->strided(); !strided.empty()) {
        const auto use = detail::Channel::Use(*state.channel, *state.label);
        auto buffers = std::make_unique<detail::StridedBuffers>(strided.size());
        for (const auto& [number, call] : strided) buffers->add(call, calls[number], state);
        buffers->pack(state);
        staged = std::move(buffers);
    }
    // On every engine messages match in the order of the calls.
    if (!std::ranges::is_sorted(calls, {}, &detail::Call::tag))
        std::ranges::stable_sort(calls, {}, &detail::Call::tag);
    join_with_self(calls, state);
    for (auto& call : calls) {
        check_not_self(call, state);
        call.stream = state.stream;
    }
    return calls;
}

void Communicator::perform_batch(const std::shared_ptr<detail::CommunicatorState>& held) {
    start_batch(held).wait();
}

Pending Communicator::start_batch(const std::shared_ptr<detail::CommunicatorState>& held) {
    auto& state = *held;
    auto staged = std::unique_ptr<detail::Staged>();
    auto calls = collected(state, staged);
    if (calls.empty()) return {};
    const auto use = detail::Channel::Use(*state.channel, *state.label);
    auto started = start_all(held, calls, std::move(staged));
    state.channel->reuse(std::move(calls));
    return started;
}

Pending Communicator::start_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                                 const ListOptions& options) {
    auto& state = this->state();
    auto packed = std::make_unique<detail::Packed>(like, ins, outs, options, state);
    if (packed->empty()) return {};
    const auto use = detail::Channel::Use(*state.channel, *state.label);
    auto calls = packed->pack(state);
    for (auto& call : calls) call.stream = state.stream;
    auto started = Pending();
    packed->described([&] { started = start_all(state_, calls, std::move(packed)); });
    return started;
}

void Communicator::perform_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                                const ListOptions& options) {
    auto& state = this->state();
    if (state.space == Space::device) return start_list(like, ins, outs, options).wait();
    auto packed = detail::Packed(like, ins, outs, options, state);
    const auto use = detail::Channel::Use(*state.channel, *state.label);
    packed.described([&] { packed.run(state); });
}

}  // namespace rankmesh
