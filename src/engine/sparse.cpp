// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/sparse.hpp>

#include <cstring>
#include <optional>

#include "engine/access.hpp"
#include "engine/channel.hpp"
#include "engine/sparse.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace of_sparse {

using Room = std::function<void*(int from, std::size_t count)>;

/// One exchange of a rank.
class Exchange {
public:
    Exchange(Communicator& on, std::span<const SparseMessage> messages, const AnyBuffer<const void>& like,
             const Room& room)
        : on_(on), state_(Access::state(on)), messages_(messages), like_(like), room_(room) {
        if (state_.space == Space::device)
            throw UsageError(cat("sparse_all_to_all on ", state_.label->text(),
                                 " of messages between devices, whose engine has no probe; host() has it"));
        for (const auto& message : messages_)
            if (message.to < 0 || message.to >= state_.size)
                throw UsageError(cat("sparse_all_to_all on ", state_.label->text(),
                                     " was given a message to group rank ", message.to,
                                     "; the group has the ranks 0..", state_.size - 1));
        const auto use = Channel::Use(*state_.channel, *state_.label);
        tag_ = static_cast<std::uint16_t>(first_sparse_tag + state_.channel->next_sparse() % sparse_tags);
    }

    void run() {
        for (const auto& [to, data] : messages_) {
            if (to != state_.rank) continue;
            auto* room = room_(to, data.count / data.unit);
            if (data.count > 0) std::memcpy(room, data.data, data.count * size_of(data.dtype));
        }
        if (state_.channel->has_consensus())
            agree();
        else
            count();
    }

private:
    Pending send() {
        return on_.start().batch([this] {
            for (const auto& message : messages_) {
                if (message.to == state_.rank) continue;
                auto call = make_send(message.data, message.to, 0);
                call.tag = tag_;
                Access::run(on_, call);
            }
        });
    }

    /// Receives the next message. Returns false if none is there and it does not wait.
    bool receive(bool waits) {
        const auto probe = Call{.operation = Operation::probe, .argument = any_source, .tag = tag_};
        const auto message = run_probe(state_, probe, waits);
        if (!message) return false;
        const auto unit = size_of(like_.dtype) * like_.unit;
        if (message->bytes % unit != 0) refuse_length(message->from, message->bytes, unit);
        const auto count = message->bytes / unit;
        auto call = make_recv({room_(message->from, count), count * like_.unit, like_.dtype, like_.unit},
                              message->from, 0);
        call.tag = tag_;
        Access::run(on_, call);
        return true;
    }

    /// Every rank first learns how many messages it gets.
    void count() {
        auto counts = std::vector<int>(static_cast<std::size_t>(state_.size));
        for (const auto& message : messages_)
            if (message.to != state_.rank) ++counts[static_cast<std::size_t>(message.to)];
        auto arriving = 0;
        on_.reduce_scatter(counts, arriving);
        auto sent = send();
        for (; arriving > 0; --arriving) receive(true);
        sent.wait();
    }

    /// Hoefler, Siebert and Lumsdaine's nonblocking consensus: a send is complete once it is received. A rank
    /// whose sends are complete begins a barrier, and receives until all ranks have begun it.
    void agree() {
        auto last = send();
        auto is_in_barrier = false;
        const auto since = std::chrono::steady_clock::now();
        for (auto pause = Pause();;) {
            if (receive(false)) continue;
            const auto passed = std::chrono::steady_clock::now() - since;
            if (last.done() || passed >= state_.timeout) {
                Access::wait(last, passed);
                if (is_in_barrier) return;
                last = on_.start().barrier();
                is_in_barrier = true;
            } else {
                pause();
            }
        }
    }

    Communicator& on_;
    CommunicatorState& state_;
    const std::span<const SparseMessage> messages_;
    const AnyBuffer<const void>& like_;
    const Room& room_;
    std::uint16_t tag_ = 0;
};

}  // namespace of_sparse

void run_sparse_all_to_all(Communicator& on, std::span<const SparseMessage> messages,
                           const AnyBuffer<const void>& like, const of_sparse::Room& room) {
    of_sparse::Exchange(on, messages, like, room).run();
}

SparseBytes sparse_bytes(Communicator& on, std::span<const SparseMessage> messages,
                         const AnyBuffer<const void>& like) {
    auto received = SparseBytes{};
    run_sparse_all_to_all(on, messages, like, [&](int from, std::size_t count) -> void* {
        auto bytes = std::vector<char>(count * like.unit * size_of(like.dtype));
        return received.emplace_back(from, std::move(bytes)).second.data();
    });
    std::ranges::stable_sort(received, {}, &SparseBytes::value_type::first);
    return received;
}

}  // namespace rankmesh::detail
