// SPDX-License-Identifier: Apache-2.0
// A communicator: who is in it, what it has been asked for, and in which state it is.
#pragma once

#include <memory>
#include <optional>

#include "fake/cuda/machine.hpp"
#include "fake/cuda/stream.hpp"
#include "fake/nccl/connection.hpp"

namespace fake_nccl {

/// Ends what runs on communicators that share resources, as their kernels share one flag.
struct Stop {
    std::atomic<bool> aborted = false;
};

/// Where only one thread may be at a time: inside the calls on one communicator, or in those that enqueue on
/// one device. A thread that comes after another one stays for FAKE_LAG, so that a third is seen.
class Gate {
public:
    void enter(const char* call, const std::string& where);
    void leave();

private:
    std::mutex mutex_;
    std::thread::id inside_ = {}, last_ = {};
    int depth_ = 0;
    const char* call_ = "";
};

/// What ncclRedOpCreatePreMulSum made.
struct Scaled {
    ncclDataType_t type;
    std::string scalar;     // its bytes, or
    const void* on_device;  // where they will be read
};

class Communicator : public std::enable_shared_from_this<Communicator> {
public:
    int device = 0;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    std::string name = {};  // of errors
    std::shared_ptr<Stop> stop = std::make_shared<Stop>();

    // Set when it is made.
    std::shared_ptr<Connection> connection = {};
    std::uint64_t id = 0;
    std::vector<int> ranks = {};  // of the connection
    int rank = 0;                 // among them

    int size() const { return static_cast<int>(ranks.size()); }
    int connection_rank(int of) const { return ranks.at(static_cast<std::size_t>(of)); }
    bool is_blocking() const { return config.blocking != 0; }

    // How often each was asked for; equal on all ranks.
    std::uint64_t collectives = 0;
    std::uint64_t exchanges = 0;
    std::uint64_t splits = 0;
    std::uint64_t shrinks = 0;
    std::map<int, std::uint64_t> sends = {}, receives = {};  // by peer
    std::vector<std::optional<Scaled>> scaled = {};
    std::set<void*> registered = {};

    std::atomic<bool> cancelled = false;  // by abort or revoke: nothing waits for peers any more
    std::atomic<bool> revoked = false;
    std::atomic<bool> finalized = false;
    std::atomic<bool> suspended = false;
    std::atomic<bool> used = false;  // by an operation, and so connected

    /// What ncclCommGetAsyncError tells: ncclInProgress, how that ended, or that a peer is gone.
    ncclResult_t state() const;
    void set_state(ncclResult_t result, const std::string& why);
    /// A job begins or ends; its end is not told where an error has come before.
    void begin_job();
    void end_job(ncclResult_t result, const std::string& why);
    bool has_running_job() const { return jobs_ > 0; }
    /// The state, and frees the thread of a job that has ended well, as ncclCommGetAsyncError does.
    ncclResult_t poll();
    /// True while there is a job whose thread has not been freed.
    bool is_linked() const { return linked_; }
    /// Keeps an error as the state, where calls do not block.
    void stick(const Failure& failure);

    std::shared_ptr<Gate> gate = std::make_shared<Gate>();
    std::string last_error() const;

    bool is_stopped() const { return cancelled || stop->aborted; }
    /// The rank whose process is gone or that has aborted, though it had not left; -1: none.
    int failed_rank() const;
    std::string failure() const;  // in words

    /// Of what was last put on a stream; null: nothing was.
    std::shared_ptr<fake_cuda::Mark> tail() const;
    void set_tail(std::shared_ptr<fake_cuda::Mark> tail);
    bool has_pending_work() const;
    void wait_for_work() const;

    /// Blocks until all of `among` have made the same call; returns the data of each. Throws Failure.
    std::vector<std::string> exchange(const std::string& call, const std::string& brought);
    std::vector<std::string> exchange(const std::vector<int>& among, std::uint64_t under,
                                      std::uint64_t number, const std::string& call,
                                      const std::string& brought);
    /// Tells the others that this rank has no more to do with it.
    void leave(Kind how);

private:
    mutable std::mutex mutex_;
    std::atomic<int> jobs_ = 0;
    std::atomic<bool> linked_ = false;
    ncclResult_t result_ = ncclSuccess;
    std::string why_;
    std::shared_ptr<fake_cuda::Mark> tail_;
};

/// The communicator of a handle. Throws Failure for none; for one that is no more, a violation.
std::shared_ptr<Communicator> peek(ncclComm_t handle, const char* call);
/// The same, and the thread is inside a call on it until that ends.
std::shared_ptr<Communicator> of(ncclComm_t handle, const char* call);
/// Passes a gate, which another thread may not until the call ends.
void enter(const std::shared_ptr<Gate>& gate, const char* call, const std::string& where);
/// The gates that this thread has passed; it leaves all but the first `kept`.
std::size_t entered();
void leave_gates(std::size_t kept);
/// The gate of those who enqueue on a device.
std::shared_ptr<Gate> gate_of_device(int device);
/// Waits for the work of other communicators of the device, as the real library frees device memory.
void wait_for_others(const Communicator& communicator, const char* call);
/// Throws Failure where what was begun on it has not ended.
void demand_nothing_in_progress(Communicator& communicator, const char* call);
/// The communicator of a handle, held to be ready for another call.
std::shared_ptr<Communicator> ready(ncclComm_t handle, const char* call);
void fail_where_planted(const char* call);
ncclComm_t publish(std::shared_ptr<Communicator> communicator);
void forget(ncclComm_t handle);

/// A number that all ranks make of the same parts.
std::uint64_t hash(const std::string& parts);

}  // namespace fake_nccl
