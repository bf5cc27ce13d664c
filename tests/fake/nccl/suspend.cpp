// SPDX-License-Identifier: Apache-2.0
// Communicators whose memory is released for a while; headers of 2.28 do not have these calls.
#include "fake/nccl/group.hpp"

#ifdef NCCL_SUSPEND_MEM

using namespace fake_nccl;

ncclResult_t ncclCommSuspend(ncclComm_t handle, int flags) {
    constexpr auto call = "ncclCommSuspend";
    return answer([&] {
        auto communicator = ready(handle, call);
        demand(flags == NCCL_SUSPEND_MEM, call, "there is one flag, for memory");
        demand(!communicator->suspended, call, "it is suspended already");
        if (communicator->has_pending_work())
            violation(call, ": operations of communicator ", communicator->name, " have not ended");
        // All ranks of it exchange which of their memory is released (mem_manager.cc).
        submit(Job{{communicator}, communicator->is_blocking(), [=] {
                       communicator->exchange(call, {});
                       communicator->suspended = true;
                   }});
    });
}

ncclResult_t ncclCommResume(ncclComm_t handle) {
    constexpr auto call = "ncclCommResume";
    return answer([&] {
        auto communicator = ready(handle, call);
        demand(communicator->suspended, call, "it is not suspended");
        submit(Job{{communicator}, communicator->is_blocking(), [=] {
                       communicator->exchange(call, {});
                       communicator->suspended = false;
                   }});
    });
}

ncclResult_t ncclCommMemStats(ncclComm_t handle, ncclCommMemStat_t which, std::uint64_t* value) {
    constexpr auto call = "ncclCommMemStats";
    return answer([&] {
        const auto communicator = of(handle, call);
        demand(value != nullptr, call, "the place for the answer is null");
        constexpr auto persistent = std::uint64_t{1} << 20;
        constexpr auto rest = std::uint64_t{3} << 20;
        switch (which) {
            case ncclStatGpuMemSuspend:
                *value = rest;
                return;
            case ncclStatGpuMemSuspended:
                *value = communicator->suspended ? 1 : 0;
                return;
            case ncclStatGpuMemPersist:
                *value = persistent;
                return;
            case ncclStatGpuMemTotal:
                *value = persistent + rest;
                return;
        }
        demand(false, call, "there is no such number");
    });
}

#endif
