// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

#include <mpi.h>

#include <rankmesh/engine/detail/call.hpp>
#include <rankmesh/engine/tag.hpp>

#include "engine/channel.hpp"
#include "engine/diagnosis/cause.hpp"
#include "engine/mpi/comparison.hpp"
#include "engine/mpi/runtime.hpp"
#include "engine/mpi/types.hpp"
#include "engine/roles.hpp"
#include "engine/sparse.hpp"

namespace rankmesh::detail {

// The tags of all messages on a communicator, distinct for each kind.

/// The first of them, that of messages with tag 0: at the end of the range that every MPI supports, away from
/// the tags of a program that calls MPI on the same communicator.
constexpr int first_tag = 16376;
constexpr int shift_tag = first_tag + static_cast<int>(first_sparse_tag + sparse_tags);
constexpr int part_tag = shift_tag + 1;  // of an all_to_all_v, or a long all_gather_v
constexpr int arrival_tag = shift_tag + 2;
constexpr int verdict_tag = shift_tag + 3;
static_assert(verdict_tag <= 32767);

constexpr int message_tag(const Call& call) { return first_tag + call.tag; }

/// During its lifetime errors of messages are returned to the call that this thread makes. MPICH raises those
/// of started messages on MPI_COMM_WORLD.
class ReturnsErrors {
public:
    explicit ReturnsErrors(bool messages = true) { in_effect_ = messages; }
    ~ReturnsErrors() { in_effect_ = false; }
    ReturnsErrors& operator=(ReturnsErrors&&) = delete;

    static bool in_effect() { return in_effect_; }

private:
    static inline thread_local bool in_effect_ = false;
};

/// Makes calls of MPI that block, or starts them and collects their requests.
class MpiCalls {
public:
    MpiCalls() = default;
    explicit MpiCalls(std::vector<MPI_Request>* requests) : requests_(requests) {}
    bool starts() const { return requests_ != nullptr; }
    template <class Blocking, class Started, class... Arguments>
    void operator()(Blocking blocking, Started started, Arguments... arguments) const {
        if (requests_)
            started(arguments..., &requests_->emplace_back(MPI_REQUEST_NULL));
        else
            blocking(arguments...);
    }

private:
    std::vector<MPI_Request>* requests_ = nullptr;
};

/// One MPI communicator.
class MpiChannel final : public Channel {
public:
    /// Takes over `comm`, in which this process has the group rank of its rank. `key` is the same on all
    /// members, and identifies the channel within the job; `label` has its ranks.
    MpiChannel(std::shared_ptr<Runtime> runtime, std::shared_ptr<PeerQuery> world, MPI_Comm comm,
               std::uint64_t key, std::shared_ptr<const Label> label, std::shared_ptr<Recorder> recorder,
               std::shared_ptr<Cause> cause);
    ~MpiChannel() override;

    void run(const Call& call, const Label& label, Duration timeout) override;
    std::uint64_t start(std::span<const Call> calls, const Label& label) override;
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override {
        wait_for(ticket, label, timeout, {});
    }
    bool wait_for(std::uint64_t ticket, const Label& label, Duration timeout,
                  const Purpose& purpose) override;
    bool done(std::uint64_t ticket) override;
    std::optional<Message> probe(const Call& call, const Label& label,
                                 std::optional<Duration> timeout) override;
    void leave(std::uint64_t ticket, const Label& label) noexcept override;
    void leave() noexcept override;

    /// Asks over the watchdogs, which reach the ranks of this host.
    std::vector<PeerStatus> ask(const std::string& key, std::uint64_t number) override {
        return runtime_->watchdog().ask(watched_call_, label_->ranks, key, number);
    }

    bool has_consensus() const override { return true; }
    bool blocking_matches_started() const override { return false; }  // the MPI standard, section 6.12
    bool is_pending() override {
        return std::ranges::any_of(slots_, [](const auto& each) { return each->taken; });
    }

    MPI_Comm comm() const { return comm_; }

    /// Ends the job: MPI reports an error on this communicator that no call of its own hears of.
    void on_error(int code) const noexcept;

private:
    /// What one request receives.
    struct Receive {
        std::size_t request;
        std::size_t count;
        int from;
        std::size_t call;  // of the ticket
    };
    /// Counts and displacements of what an all_gather_v writes, as MPI takes them.
    struct Parts {
        std::vector<int> counts;
        std::vector<int> offsets;
    };
    struct Started {
        Call call;
        std::uint64_t number = 0;
        std::vector<char> held;  // a copy of the input of an operation in place
        Parts parts;
        std::optional<std::size_t> comparison;  // its request
        Comparison::Sides sides;
    };
    /// The state of one ticket; slots and their memory are reused, so that a steady program allocates
    /// nothing.
    struct Slot {
        std::vector<MPI_Request> requests;
        std::deque<Started> started;  // which do not move either; the first `calls` are in use
        std::size_t calls = 0;
        std::vector<Receive> receives;
        std::vector<MPI_Status> statuses;  // of the requests, once they are complete
        bool complete = false;
        bool taken = false;
    };

    std::size_t free_slot();
    bool is_one_call(const Call& call) const;
    void run_now(const Call& call, std::uint64_t number, const Label& label);
    void move_now(const Call& call, std::uint64_t number, const Label& label);
    void post(Started& started, Slot& slot);
    void post_moves(const Call& call, Slot& slot);
    void post_parts(const Call& call, Slot& slot);
    void collect(const Call& call, Parts& parts, const MpiCalls& mpi, int count, MPI_Datatype type);
    void reduce(const Call& call, const MpiCalls& mpi);
    bool is_in_two_steps(const Call& call) const;
    void reduce_in_two_steps(const Call& call);
    void post_gathering(Started& started, Slot& slot);
    void finish_gathering(const Started& started) const;
    void expect(Slot& slot, std::size_t count, int from) const;
    bool completes(std::uint64_t ticket, const std::function<bool()>& is_interrupted);
    void complete(Slot& slot);
    static MPI_Status* statuses_of(Slot& slot);
    void check_lengths(const Slot& slot, const Label& label);
    void check_length(const Call& call, std::uint64_t number, const Label& label, const MPI_Status& status,
                      int code, std::size_t expected, int from) const;
    void monitor(Slot& slot, const Label& label, Duration timeout);
    bool fits(const Call& call, std::size_t part) const;
    void fill(const Call& call, Parts& parts) const;
    int peer(int group_rank) const {
        return group_rank >= 0 ? group_rank : group_rank == any_source ? MPI_ANY_SOURCE : MPI_PROC_NULL;
    }
    int target_of(const Call& call) const { return peer(peers_of(call, rank_, size_).to); }
    int source_of(const Call& call) const { return peer(peers_of(call, rank_, size_).from); }
    void compare(const Call& call, std::uint64_t number, const Label& label);
    void await_comparisons(Slot& slot, const Label& label);
    const void* in_of_reduce(const Call& call);
    bool is_littered() const;
    void finish(const Call& call) const;
    std::uint64_t number_of(const Call& call, bool started) {
        return is_point_to_point(call.operation) ? ++messages_ : watched_call_.next_collective(started);
    }

    std::shared_ptr<Runtime> runtime_;
    const std::shared_ptr<Cause> cause_;
    MPI_Comm comm_;
    const std::shared_ptr<const Label> label_;
    int rank_ = 0;
    int size_ = 1;
    std::uint64_t messages_ = 0;  // how many this rank has called
    WatchedCall watched_call_;
    Comparison comparison_;
    std::vector<std::unique_ptr<Slot>> slots_;  // which do not move
    Parts parts_;                               // of the blocking call
    std::vector<char> held_;                    // a copy of what it reads
    bool abandoned_ = false;                    // a monitored barrier ended early
};

// A barrier whose ranks learn who is missing: every rank sends a message to group rank 0, which tells all of
// them who did not. It uses messages only, so that an expired timeout is an exception and not the end of the
// job.

/// Sends this rank's arrival to group rank 0, or there receives the others'.
void post_arrival(MPI_Comm comm, std::vector<MPI_Request>& requests);
/// True if `await_arrivals` would return at once.
bool all_arrived(MPI_Comm comm, std::vector<MPI_Request>& requests);
/// Returns once all ranks have arrived; throws Timeout with those that have and have not.
void await_arrivals(MPI_Comm comm, std::vector<MPI_Request>& requests, const Label& label, Duration timeout);

}  // namespace rankmesh::detail
