// SPDX-License-Identifier: Apache-2.0
// Events of fake devices: what was on a stream when one was last recorded.
#include <map>

#include "fake/cuda/machine.hpp"
#include "fake/cuda/stream.hpp"

using namespace fake_cuda;

namespace {

struct Event {
    int device;
    std::shared_ptr<Mark> recorded = {};  // null: never, which waits for nothing
};

struct Events {
    static Events& get() {
        static auto& events = *new Events();
        return events;
    }
    std::shared_ptr<Event> of(cudaEvent_t handle) {
        const auto lock = std::lock_guard(mutex);
        const auto found = events.find(handle);
        return found == events.end() ? nullptr : found->second;
    }

    std::mutex mutex;
    std::map<cudaEvent_t, std::shared_ptr<Event>> events = {};
};

const struct Leaks {
    ~Leaks() {
        auto& events = Events::get();
        if (setting("FAKE_LEAKS", 0) == 0) return;
        const auto lock = std::lock_guard(events.mutex);
        if (!events.events.empty()) violation(events.events.size(), " events were not destroyed");
    }
} leaks;

std::shared_ptr<Mark> recorded(const Event& event) {
    const auto lock = std::lock_guard(Events::get().mutex);
    return event.recorded;
}

}  // namespace

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned int) {
    FAKE_CUDA_READY();
    if (!handle) return said(cudaErrorInvalidValue);
    auto event = std::make_shared<Event>(Event{current_device()});
    *handle = reinterpret_cast<cudaEvent_t>(event.get());
    auto& events = Events::get();
    const auto lock = std::lock_guard(events.mutex);
    events.events[*handle] = std::move(event);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) {
    return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    FAKE_CUDA_READY();
    auto& events = Events::get();
    const auto lock = std::lock_guard(events.mutex);
    return events.events.erase(handle) > 0 ? cudaSuccess : said(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
    FAKE_CUDA_READY();
    demand_cleared(__func__);
    const auto event = Events::get().of(handle);
    const auto stream = stream_of(on);
    if (!event || !stream || device_of(*stream) != event->device) return said(cudaErrorInvalidResourceHandle);
    auto mark = enqueue(stream, nullptr);
    const auto lock = std::lock_guard(Events::get().mutex);
    event->recorded = std::move(mark);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    FAKE_CUDA_READY();
    demand_no_capture(__func__);
    const auto event = Events::get().of(handle);
    if (!event) return said(cudaErrorInvalidResourceHandle);
    const auto mark = recorded(*event);
    return !mark || mark->happened() ? cudaSuccess : said(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    FAKE_CUDA_READY();
    demand_no_capture(__func__);
    const auto event = Events::get().of(handle);
    if (!event) return said(cudaErrorInvalidResourceHandle);
    if (const auto mark = recorded(*event)) mark->wait();
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t who, cudaEvent_t handle, unsigned int) {
    FAKE_CUDA_READY();
    const auto event = Events::get().of(handle);
    const auto stream = stream_of(who);
    if (!event || !stream) return said(cudaErrorInvalidResourceHandle);
    if (const auto mark = recorded(*event); mark && !mark->happened())
        enqueue(stream, [mark] { mark->wait(); });
    return cudaSuccess;
}
