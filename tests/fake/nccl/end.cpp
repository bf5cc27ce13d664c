// SPDX-License-Identifier: Apache-2.0
// How communicators end, and what can be asked about them.
#include "fake/nccl/group.hpp"
#include "fake/nccl/order.hpp"

using namespace fake_nccl;

namespace {

// The ranks of a node that finalize wait for each other, and so do those that only destroy.
constexpr auto ending = "ncclCommFinalize or ncclCommDestroy";

void finalize(Communicator& communicator) {
    communicator.wait_for_work();
    communicator.exchange(ending, {});
    communicator.finalized = true;
    communicator.leave(Kind::left);
}

void end_rank_of(ncclComm_t handle, const Communicator& communicator) {
    count_no_more(communicator);
    if (setting("FAKE_LEAKS", 0) != 0) {
        if (!communicator.registered.empty())
            violation("communicator ", communicator.name, " ends with ", communicator.registered.size(),
                      " buffers registered");
        for (const auto& each : communicator.scaled)
            if (each)
                violation("communicator ", communicator.name,
                          " ends with a reduction that was not destroyed");
    }
    forget(handle);
}

template <class Get>
ncclResult_t ask(ncclComm_t handle, int* out, const char* call, const Get& get) {
    return answer([&] {
        const auto communicator = ready(handle, call);
        if (!out) throw Failure{ncclInvalidArgument, text(call, ": the place for the answer is null")};
        *out = get(*communicator);
    });
}

}  // namespace

// To end none is a success, as the real library says.
ncclResult_t ncclCommFinalize(ncclComm_t handle) {
    constexpr auto call = "ncclCommFinalize";
    if (!handle) return ncclSuccess;
    return answer([&] {
        auto communicator = ready(handle, call);
        if (communicator->revoked || communicator->finalized) {
            const auto failure =
                Failure{ncclInvalidArgument, text(call, ": communicator ", communicator->name,
                                                  communicator->revoked ? " was revoked" : " was finalized")};
            communicator->stick(failure);
            throw failure;
        }
        submit(Job{{communicator}, communicator->is_blocking(), [=] { finalize(*communicator); }});
    });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
    constexpr auto call = "ncclCommDestroy";
    if (!handle) return ncclSuccess;
    return answer([&] {
        auto communicator = of(handle, call);
        demand_nothing_in_progress(*communicator, call);
        if (communicator->state() != ncclSuccess)  // and nothing is freed
            throw Failure{communicator->state(),
                          text(call, ": communicator ", communicator->name, " has failed")};
        if (communicator->has_pending_work())
            violation(call, ": operations of communicator ", communicator->name,
                      " have not ended; synchronise their streams first, or abort");
        submit(Job{{}, true, [=] {
                       auto end_of_it = Failure{ncclSuccess, {}};
                       try {
                           if (!communicator->finalized && !communicator->revoked &&
                               !communicator->is_stopped())
                               finalize(*communicator);
                           else if (communicator->connection && !communicator->finalized)
                               communicator->leave(Kind::aborted);
                       } catch (const Failure& failure) {
                           end_of_it = failure;
                           communicator->leave(Kind::aborted);
                       }
                       wait_for_others(*communicator, call);
                       end_rank_of(handle, *communicator);
                       if (end_of_it.result != ncclSuccess) throw end_of_it;
                   }});
    });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
    if (!handle) return ncclSuccess;
    return answer([&] {
        constexpr auto call = "ncclCommAbort";
        auto communicator = peek(handle, call);
        // A thread that waits inside a call that blocks is freed by another one.
        if (!communicator->is_blocking()) of(handle, call);
        communicator->cancelled = true;
        communicator->stop->aborted = true;
        while (communicator->has_running_job()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (communicator->connection) {
            communicator->connection->wake();
            if (!communicator->finalized) communicator->leave(Kind::aborted);
            communicator->wait_for_work();
        }
        wait_for_others(*communicator, call);
        end_rank_of(handle, *communicator);
    });
}

ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
    constexpr auto call = "ncclCommRevoke";
    if (!handle) return ncclSuccess;
    return answer([&] {
        auto communicator = of(handle, call);
        if (flags != NCCL_REVOKE_DEFAULT)
            throw Failure{ncclInvalidArgument, text(call, ": there are no flags")};
        if (communicator->revoked || communicator->finalized)
            throw Failure{ncclInvalidArgument,
                          text(call, ": communicator ", communicator->name, " was revoked or finalized")};
        if (communicator->is_linked())
            violation(call, " of communicator ", communicator->name,
                      " with a job that has not ended, or whose end ncclCommGetAsyncError has not told: NCCL "
                      "frees the job, and uses it later");
        communicator->revoked = true;
        communicator->cancelled = true;
        communicator->connection->wake();
        submit(Job{{communicator}, communicator->is_blocking(), [=] { communicator->wait_for_work(); }});
    });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
    return answer([&] {
        const auto communicator = of(handle, "ncclCommGetAsyncError");
        if (!error)
            throw Failure{ncclInvalidArgument, "ncclCommGetAsyncError: the place for the answer is null"};
        *error = communicator->poll();
    });
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
    return ask(handle, count, "ncclCommCount", [](const auto& each) { return each.size(); });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
    return ask(handle, device, "ncclCommCuDevice", [](const auto& each) { return each.device; });
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
    return ask(handle, rank, "ncclCommUserRank", [](const auto& each) { return each.rank; });
}

const char* ncclGetErrorString(ncclResult_t result) {
    constexpr const char* words[] = {"no error",
                                     "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                     "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                     "internal error - please report this issue to the NCCL developers",
                                     "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                     "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                     "remote process exited or there was a network error",
                                     "NCCL operation in progress"};
    return result >= 0 && result < ncclNumResults ? words[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t handle) {
    if (handle) {
        thread_local auto words = std::string{};
        words = peek(handle, "ncclGetLastError")->last_error();
        if (!words.empty()) return words.c_str();
    }
    return last_error().c_str();
}
