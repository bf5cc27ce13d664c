// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <future>
#include <memory>
#include <thread>

#include <rankmesh/engine/device_settings.hpp>

namespace rankmesh::detail {

class NcclComm;

/// Ends the communicators of one device on a thread of its own: ncclCommDestroy and ncclCommAbort block, and
/// can wait for work of another communicator on that device.
class NcclReaper {
public:
    explicit NcclReaper(int device);
    /// Waits 10 s for the peers of communicators that are being finalised, then aborts them. Leaves the
    /// thread behind if NCCL still blocks 5 s later.
    ~NcclReaper();
    NcclReaper& operator=(NcclReaper&&) = delete;

    /// Finalises it when its other ranks do, in whatever order they release theirs, and destroys it.
    void retire(std::unique_ptr<NcclComm> comm);

    /// A communicator to abort, and what NCCL uses until then.
    struct Dead {
        ncclComm_t comm = nullptr;
        std::shared_ptr<const DeviceSettings> settings = nullptr;
        std::shared_ptr<NcclComm> child = nullptr;  // where the pointer is stored that a job will write
        std::promise<void> over = {};               // of the abort
    };
    /// Ready once it is aborted; until then a job may still use streams and buffers.
    std::shared_future<void> abort(Dead dead);
    /// Frees memory of the device at the end of all: cudaFree waits for the device.
    void free_last(void* memory);

private:
    struct State;
    void start();

    const std::shared_ptr<State> state_;
    std::thread thread_;  // started with the first communicator
};

}  // namespace rankmesh::detail
