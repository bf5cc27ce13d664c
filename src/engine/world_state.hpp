// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

#include <rankmesh/engine/world.hpp>

#include "engine/diagnosis/cause.hpp"
#include "engine/exchange.hpp"
#include "engine/fork.hpp"
#include "engine/pending_buffers.hpp"
#include "engine/record/recorder.hpp"

namespace rankmesh::detail {

/// The options, completed from the environment where they are unset; throws UsageError for a timeout that is
/// not positive, for a RANKMESH_CHECK that is neither 0 nor 1, and for a record_signal or
/// RANKMESH_RECORD_SIGNAL that cannot be caught.
WorldOptions settled(WorldOptions options);

/// What the groups that are made at run time count, so that their messages and names are told apart.
struct GroupCounts {
    std::map<std::vector<int>, int> made;             // by ranks: how many times one was to be made
    std::map<int, int> sent;                          // by rank: how many messages this one has sent it
    std::map<int, int> received;                      // and has read
    std::map<int, std::deque<std::string>> deferred;  // by rank: what it said of a later group
};

/// What an engine implements for one rank of a world.
class WorldState : public OfOneProcess {
public:
    /// Throws UsageError as `settled` does.
    explicit WorldState(const WorldOptions& options) : options(settled(options)) {}

    virtual std::string engine() const = 0;
    virtual Exchange& exchange() = 0;
    /// Called when an exception ends this rank while peers may wait for it. Never waits, never throws.
    virtual void leave(const std::string& what) noexcept = 0;
    /// A world of these ranks, which are valid and include this one; called by them only.
    virtual std::shared_ptr<WorldState> sub(const std::vector<int>& ranks) = 0;
    /// A world of the ranks that call this within `grace`; throws UsageError where a job ends with its first
    /// rank.
    virtual std::shared_ptr<WorldState> survivors(Duration grace) = 0;
    /// A world of these ranks and of up to `most` processes that wait to enter; throws UsageError where none
    /// can.
    virtual std::shared_ptr<WorldState> grow(int most, Duration timeout) = 0;
    /// The name of this rank's host.
    virtual std::string host() = 0;
    /// Sets the record of this rank, before the first collective of the world; `roots` are the numbers of the
    /// world's ranks in the one that the record is about, null where they are the same.
    virtual void record_in(std::shared_ptr<Recorder> recorder,
                           std::shared_ptr<const std::vector<int>> roots) {
        recorder_ = std::move(recorder);
        roots_ = std::move(roots);
        if (recorder_ && roots_) record_name_ = recorder_->name_of_part(*roots_);
    }
    const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
    const std::shared_ptr<const std::vector<int>>& roots() const { return roots_; }
    /// What distinguishes this world's groups in the record from those of others that share it.
    const std::string& record_name() const { return record_name_; }
    /// The numbers of these ranks in the world that the record is about.
    std::shared_ptr<const std::vector<int>> roots_of(std::vector<int> ranks) const {
        return std::make_shared<const std::vector<int>>(in_record(std::move(ranks), roots_.get()));
    }

    /// The engine for devices beside this one, null without one.
    virtual DeviceEngine* device() { return nullptr; }

    /// Passes `prefix line` to the program's log, if it has one.
    void log(const std::string& prefix, const std::string& line) const noexcept {
        if (!options.log) return;
        try {
            options.log(cat("[", prefix, "] ", line));
        } catch (...) {  // a log that fails must not change what is logged
        }
    }

    void log(const std::string& line) { log(cat("rank ", rank()), line); }

    int rank() { return exchange().rank(); }
    int size() { return exchange().size(); }
    int local_size() { return static_cast<int>(exchange().local_ranks().size()); }
    int local_rank() { return position_of(exchange().local_ranks(), rank()); }

    /// Marks the world as in use by one thread for a collective of the world, `what` in words; throws
    /// UsageError if another thread is in one, and in a child that the process has forked.
    class Use {
    public:
        Use(WorldState& world, const char* what) : world_(world), phase_(world.recorder_.get(), what) {
            if (world.is_foreign() && world.size() > 1)
                throw UsageError(
                    cat(what, ": this world belongs to the process that this one was forked off, rank ",
                        world.rank(), "; make a world of its own after the fork"));
            if (world_.in_use_.exchange(true))
                throw UsageError(
                    "two threads join or prepare in one world at once; one thread at a time may");
        }
        ~Use() { world_.in_use_ = false; }
        Use& operator=(Use&&) = delete;

    private:
        WorldState& world_;
        const Recorder::Phase phase_;
    };

    const WorldOptions options;
    /// Why calls of this rank fail, if they do; of all worlds that exchange messages by this one.
    std::shared_ptr<Cause> cause = std::make_shared<Cause>();
    /// Processes have entered it, of which one may have ended since: all ranks hear of that in their next
    /// join.
    bool is_grown = false;
    /// Throws UsageError unless these are different ranks of the world, this one among them: those of `what`,
    /// as in `a world`, which only they `call`.
    void check_listed(const std::vector<int>& ranks, const char* what, const char* call);

    int joins = 0;  // how many plans were joined: distinguishes their channels
    /// Of all worlds that exchange messages by this one, as one of devices over it does.
    std::shared_ptr<GroupCounts> groups = std::make_shared<GroupCounts>();
    /// The memory that this rank's calls use in checked mode, also those of worlds of some of its ranks.
    std::shared_ptr<PendingBuffers> checked_buffers = std::make_shared<PendingBuffers>();

private:
    std::atomic<bool> in_use_ = false;
    std::shared_ptr<Recorder> recorder_;
    std::shared_ptr<const std::vector<int>> roots_;
    std::string record_name_;
};

/// Runs a collective of the world or of some of its ranks, whose error is recorded.
template <class Body>
auto recording(WorldState& world, Body&& body) {
    try {
        return body();
    } catch (...) {
        world.cause->set_by_exception();
        world.recorder()->failed(std::current_exception(), world.roots().get());
        throw;
    }
}

}  // namespace rankmesh::detail
