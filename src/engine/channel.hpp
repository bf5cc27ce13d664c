// SPDX-License-Identifier: Apache-2.0
// Channel, the interface of an engine for one live group, and CommunicatorState, which refers to one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/group.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/detail/call.hpp>
#include <rankmesh/engine/detail/memory_layout.hpp>
#include <rankmesh/engine/message.hpp>

#include "engine/fork.hpp"

namespace rankmesh::detail {

struct CommunicatorState;

/// Results of calls in staging memory, which are copied to the caller's buffers.
class Staged {
public:
    virtual ~Staged() = default;
    Staged& operator=(Staged&&) = delete;

    /// Copies the results out, once the calls are complete; called inside a use of the channel.
    virtual void unpack(const CommunicatorState& state) = 0;

    /// Runs `body`; a Disagreement that it throws says also what this rank gave.
    template <class Body>
    void described(Body&& body) const {
        try {
            body();
        } catch (const Disagreement& error) {
            throw Disagreement(error.what() + text(), error.ranks);
        }
    }

private:
    virtual std::string text() const { return ""; }
};

using Duration = std::chrono::nanoseconds;

/// 0, 1, ... `size - 1`.
std::vector<int> first_ranks(int size);
bool contains(const std::vector<int>& ranks, int rank);
/// Where a rank stands in a list, -1 if it does not.
int position_of(const std::vector<int>& ranks, int rank);
/// What `text` says of each element, with `between` between two.
std::string joined(const auto& elements, std::string_view between, const auto& text) {
    auto all = std::string{};
    for (const auto& each : elements) append(all, cat(all.empty() ? "" : between, text(each)));
    return all;
}
std::string joined(const auto& elements, std::string_view between) {
    return joined(elements, between, [](const auto& each) { return cat(each); });
}

/// The ordered world ranks of a group: closed form, through a table where the declaration placed ranks.
struct Ranks {
    Group group;
    std::shared_ptr<const std::vector<int>> placed = nullptr;  // null: the group holds world ranks

    int size() const { return group.size(); }
    int operator[](int i) const { return placed ? (*placed)[static_cast<std::size_t>(group[i])] : group[i]; }
    std::vector<int> list() const;
    friend std::string to_string(const Ranks& ranks);
};

/// The text of a call, with the world ranks of its peers where they differ: `send of 3 f32 to 1 (world
/// rank 2)`.
std::string to_string(const Call& call, const Ranks* ranks);

/// ` with tag 0`, where the tag at the other end may differ; "" if both are 0.
std::string tag_text(int tag, int other);

/// `rank 3`, `ranks {3, 5}`.
std::string ranks_text(const std::vector<int>& ranks);

/// `ranks 3 [dp=1 tp=1], 5 [dp=2 tp=1]`: ranks with their coordinates in a mesh; only the first few of many.
/// `placed` lists the ranks by position, null where they are the mesh's own.
std::string with_coordinates(const std::vector<int>& ranks, const Mesh& mesh, const std::vector<int>* placed);

/// The names of a group in errors and reports.
struct Label {
    std::string mesh;    // `pp=2 dp=4`
    std::string name;    // the mesh's name in the plan, or ""
    std::string axes;    // `dp,tp`, or the name of a pick
    std::string member;  // `pp=1 dp=0 tp=3`, "" where the rank says as much
    Ranks ranks;
    std::shared_ptr<const std::vector<int>> placed = nullptr;  // the ranks by position in the mesh, or null

    /// `'dp,cp' of mesh 'dense'`.
    std::string text() const;
    /// `'dp,cp' of mesh 'dense', group {0, 1}`.
    std::string text_with_group() const { return cat(text(), ", group ", to_string(ranks)); }
    /// `ranks 3 [dp=1 tp=1], 5 [dp=2 tp=1]`; without coordinates for nearly all of a large group.
    std::string named(const std::vector<int>& ranks) const;
    /// `'dp' of mesh dp=2, group {0, 1}, has lost rank 1 [dp=1] and cannot be used any more`.
    std::string unusable(const std::vector<int>& lost) const;
};

/// Memory into which the buffers of a list, and strided ones, are packed.
struct Staging {
    std::unique_ptr<char[]> data = nullptr;
    std::size_t bytes = 0;
};

class Bell;
class CallRing;

/// One live group on one engine, shared by all handles with the same ordered ranks.
///
/// Lengths were checked before a call gets here, and no send or recv names this rank itself. Every call takes
/// its label and timeout, since handles of several meshes share a channel.
class Channel : public OfOneProcess {
public:
    /// Runs one operation until it is complete; on a device, enqueues it on the call's stream.
    virtual void run(const Call& call, const Label& label, Duration timeout) = 0;
    /// Starts one operation, or several as one; the ticket identifies them until `wait` or `leave`. The
    /// counts that calls point to are copied.
    virtual std::uint64_t start(std::span<const Call> calls, const Label& label) = 0;
    /// Returns once all are complete, and releases the ticket; on a device, orders their stream after them,
    /// and the ticket stays until `synchronize` or `forget`. If it throws, the ticket and the
    /// buffers are released.
    virtual void wait(std::uint64_t ticket, const Label& label, Duration timeout) = 0;
    /// Why a rank waits on a channel that only compares calls.
    struct Purpose {
        const Call* call = nullptr;                      ///< what is compared, which reports name
        std::uint64_t number = 0;                        ///< of that call
        std::function<bool()> is_interrupted = nullptr;  ///< asked every `between_looks`
    };
    static constexpr auto between_looks = std::chrono::milliseconds(20);
    /// Like `wait`, but keeps the ticket and returns false once the wait is interrupted.
    virtual bool wait_for(std::uint64_t ticket, const Label& label, Duration timeout, const Purpose&) {
        wait(ticket, label, timeout);
        return true;
    }
    /// Like `wait`, and on a device blocks the host and releases the ticket.
    virtual void synchronize(std::uint64_t ticket, const Label& label, Duration timeout) {
        wait(ticket, label, timeout);
    }
    /// True if all are complete, or have failed.
    virtual bool done(std::uint64_t ticket) = 0;
    /// The message that the call, a probe, asks for; nothing if there is none and no `timeout`. With a
    /// timeout waits for it. A device has none.
    virtual std::optional<Message> probe(const Call&, const Label&, std::optional<Duration> /*timeout*/) {
        return std::nullopt;
    }
    /// True if a rank of the group has told this one that it makes no more calls.
    virtual bool has_left(int /*group_rank*/) const { return false; }
    /// The group rank whose message the last completed recv from any rank has received, once; else -1.
    int take_sender() { return std::exchange(sender_, -1); }
    /// On a device: releases a ticket that was waited for; the stream still uses its buffers.
    virtual void forget(std::uint64_t) noexcept {}
    /// Gives up a started operation while an exception unwinds, before its buffers are destroyed.
    virtual void leave(std::uint64_t ticket, const Label& label) noexcept = 0;
    /// Tells the peers that this rank makes no more calls.
    virtual void leave() noexcept = 0;
    /// Throws if peers have made the channel unusable; any thread may call it. The device's channel of the
    /// same group calls it, since its own engine may not notice.
    virtual void throw_if_broken(const Label&) {}
    /// What a rank of the group says of another channel of the same ranks, recorded as `key`.
    struct PeerStatus {
        bool arrived = false;  // it has called the collective of that number there
        std::string doing;     // `is in barrier, ...`
        bool answers = true;
        bool ended = false;  // it has that channel no more
        bool known = true;   // false: it is where the engine cannot ask, and nothing else here is true
    };
    /// Asks the other ranks of the group, over the engine, for the device's channel; by group rank, empty
    /// where the engine cannot ask. Any thread may call it.
    virtual std::vector<PeerStatus> ask(const std::string& /*key*/, std::uint64_t /*number*/) { return {}; }

    /// From now on rings `bell` whenever a started call may have completed, until this is called with null.
    /// Returns false if the engine cannot, and `done` must be called again and again. Any thread may ring.
    virtual bool set_bell(Bell*) { return false; }
    /// True if a collective that blocks on one rank matches the same one started on another.
    virtual bool blocking_matches_started() const { return true; }
    /// True if a sparse exchange ends by consensus, not by counts: a rank then needs nothing for each rank
    /// that it has no message for.
    virtual bool has_consensus() const { return false; }
    /// How many sparse exchanges were called before; called inside a use.
    std::uint64_t next_sparse() { return sparse_++; }
    /// True while the tickets of started calls are held.
    virtual bool is_pending() { return false; }
    /// The engine's own channel, where this one compares calls before they reach it.
    virtual Channel& engine_channel() { return *this; }
    /// Releases what the group holds, on an engine that can: called when all its ranks are at the same place
    /// and none has a call pending. Nothing is called until its Exchange or DeviceEngine restores it.
    virtual void release() {}
    /// What it holds now.
    struct Holding {
        int connections = 0;
        int descriptors = 0;
        std::optional<std::size_t> device_bytes = std::nullopt;

        /// Adds what another channel of the group holds on the host.
        void add(const Holding& other) {
            connections += other.connections;
            descriptors += other.descriptors;
        }
    };
    virtual Holding holding() { return {}; }

    /// The use that the channel is in; a thread may call only when it is idle.
    enum class State : std::uint8_t { idle, used, collecting, suspended, failed, foreign };
    State state() const { return state_.load(std::memory_order_acquire); }

    void enter_child() noexcept override { state_.store(State::foreign, std::memory_order_relaxed); }

    /// True if a call has thrown the error that every later call throws as well.
    bool has_reported() const { return reported_ || state() == State::failed; }

    /// Marks the channel as in use by this thread during its lifetime; throws UsageError if another thread
    /// uses it, and if the channel has failed, that error again.
    ///
    /// A load and a store, not an exchange, whose locked instruction would be half of all that a call costs
    /// here: two threads within the same few nanoseconds are not detected, a second one during a blocking
    /// call is.
    class Use {
    public:
        Use(Channel& channel, const Label& label) : channel_(channel) {
            if (channel_.state() != State::idle) channel_.throw_not_idle(label);
            channel_.state_.store(State::used, std::memory_order_relaxed);
        }
        ~Use() {
            channel_.state_.store(channel_.failure_ ? State::failed : State::idle, std::memory_order_release);
        }
        Use& operator=(Use&&) = delete;

    private:
        Channel& channel_;
    };

    /// Refuses every use while it is suspended; called outside any.
    void set_suspended(bool is) {
        state_.store(is ? State::suspended : State::idle, std::memory_order_release);
    }

    /// Begins to collect the calls of a batch; throws as Use does.
    void begin_batch(const Label& label);
    /// Adds a call to the batch that this thread collects; throws UsageError for an operation that cannot be
    /// in a batch.
    void add_to_batch(const Call& call, const Label& label);
    void add_to_batch(const StridedCall& call, const Label& label);
    /// Ends the batch and returns its calls.
    std::vector<Call> end_batch();
    /// The calls of the last batch that have strided buffers, each with its number; valid until the next.
    using NumberedCall = std::pair<std::size_t, StridedCall>;
    std::span<const NumberedCall> strided() const { return strided_; }
    /// Takes back the vector that held them, for the next batch; called inside a use.
    void reuse(std::vector<Call>&& calls) { batch_ = std::move(calls); }

    /// At least so many bytes of staging memory, that of the last call if it suffices; called inside a use.
    Staging staging(std::size_t bytes);
    /// Takes staging memory back for the next call; called inside a use.
    void keep(Staging&& staging) {
        if (staging.bytes > staging_.bytes) staging_ = std::move(staging);
    }

    /// Keeps a label alive as long as the channel: a report may read it at any time.
    void keep(std::shared_ptr<const Label> label) { labels_.push_back(std::move(label)); }
    /// The record of its calls, null if there is none.
    const std::shared_ptr<CallRing>& ring() const { return ring_; }
    /// Sets it; called once, before the first use.
    void record_in(std::shared_ptr<CallRing> ring) { ring_ = std::move(ring); }

protected:
    /// Makes every later use of the channel throw `error` again; called inside a use.
    void fail(std::exception_ptr error) { failure_ = std::move(error); }
    /// Sets whose message a recv from any rank has received.
    void set_sender(int group_rank) { sender_ = group_rank; }
    /// Records that a call throws an error that later calls throw as well, unless they were complete before.
    void report() { reported_ = true; }

private:
    [[noreturn]] void throw_not_idle(const Label& label) const;

    std::atomic<State> state_ = State::idle;
    std::exception_ptr failure_;
    bool reported_ = false;
    int sender_ = -1;
    std::uint64_t sparse_ = 0;
    std::thread::id collector_;
    std::vector<Call> batch_;
    std::vector<NumberedCall> strided_;
    Staging staging_;
    std::vector<std::shared_ptr<const Label>> labels_;
    std::shared_ptr<CallRing> ring_;
};

class WorldState;

/// The state behind a Communicator.
struct CommunicatorState {
    std::shared_ptr<WorldState> world;  // keeps the engine alive as long as the channel
    std::shared_ptr<Channel> channel;
    std::shared_ptr<const Label> label;
    Duration timeout;
    int rank = 0;  // this process's rank in the group
    int size = 1;
    Space space = Space::host;
    std::shared_ptr<CommunicatorState> host = nullptr;  // on a device: the same group on the host's engine
    Stream stream = {};                                 // on a device: the stream that orders calls
    CallRing* ring = nullptr;                           // the channel's, null in a group of one
    std::uint16_t label_number = 0;                     // of the label in the ring
};

/// Throws UsageError unless the buffers of `call` have the lengths that the operation requires. Returns false
/// if this rank has only one of them.
bool check_lengths(const Call& call, const CommunicatorState& state);
/// Checks lengths, and throws UsageError for buffers that overlap.
void check_buffers(const Call& call, const CommunicatorState& state);
inline void check(const Call& call, const CommunicatorState& state) {
    const auto& operation = traits(call.operation);
    if (operation.has_in() || operation.has_out()) check_buffers(call, state);
}

/// Operations on a group of one rank, the same on every engine: at most a copy.
class Alone final : public Channel {
public:
    void run(const Call& call, const Label& label, Duration timeout) override;
    std::uint64_t start(std::span<const Call> calls, const Label& label) override;
    void wait(std::uint64_t, const Label&, Duration) override {}
    bool done(std::uint64_t) override { return true; }
    bool set_bell(Bell*) override { return true; }  // nothing is left to wait for
    void leave(std::uint64_t, const Label&) noexcept override {}
    void leave() noexcept override {}
    void enter_child() noexcept override {}  // where it works as well
};

/// The message that `call`, a probe, asks for; nothing if there is none and it does not wait.
std::optional<Message> run_probe(CommunicatorState& state, const Call& call, bool waits);

/// Throws UsageError: `send on 'dp' of mesh dp=2`, then `parts`. In a function of its own, so that a call
/// without a fault takes few instructions.
template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void refuse_call(const Call& call, const CommunicatorState& state,
                                                        const Parts&... parts) {
    throw UsageError(cat(to_string(call.operation), " on ", state.label->text(), parts...));
}

}  // namespace rankmesh::detail
