// SPDX-License-Identifier: Apache-2.0
#include "fake/cuda/stream.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "fake/cuda/machine.hpp"
#include "fake/seen.hpp"

namespace fake_cuda {

void Mark::happen() {
    const auto lock = std::lock_guard(mutex_);
    happened_ = true;
    changed_.notify_all();
}

bool Mark::happened() const {
    const auto lock = std::lock_guard(mutex_);
    return happened_;
}

void Mark::wait() const {
    auto lock = std::unique_lock(mutex_);
    changed_.wait(lock, [&] { return happened_; });
}

bool Mark::wait_until(std::chrono::steady_clock::time_point until) const {
    auto lock = std::unique_lock(mutex_);
    return changed_.wait_until(lock, until, [&] { return happened_; });
}

class Stream {
public:
    Stream(int device, bool blocking, int priority)
        : device(device), blocking(blocking), priority(priority) {}

    /// The thread that runs tasks until the stream has been destroyed and is done.
    void work() {
        while (true) {
            auto next = std::pair<std::function<void()>, std::shared_ptr<Mark>>{};
            {
                auto lock = std::unique_lock(mutex_);
                changed_.wait(lock, [&] { return destroyed_ || !tasks_.empty(); });
                if (tasks_.empty()) return;
                next = std::move(tasks_.front());
                tasks_.pop_front();
            }
            if (next.first) {
                std::this_thread::sleep_for(std::chrono::microseconds(setting("FAKE_LAG", 50)));
                next.first();
                next.first = nullptr;
            }
            next.second->happen();
        }
    }

    std::shared_ptr<Mark> put(std::function<void()> task) {
        auto mark = std::make_shared<Mark>();
        const auto lock = std::lock_guard(mutex_);
        if (destroyed_) violation("work is put on a stream that was destroyed");
        tasks_.emplace_back(std::move(task), mark);
        tail_ = mark;
        changed_.notify_all();
        return mark;
    }

    /// Happens once all that was put before has run; null: nothing was.
    std::shared_ptr<Mark> tail() const {
        const auto lock = std::lock_guard(mutex_);
        return tail_;
    }

    void destroy() {
        const auto lock = std::lock_guard(mutex_);
        destroyed_ = true;
        changed_.notify_all();
    }

    const int device;
    const bool blocking;  // ordered with the null stream
    const int priority;

private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::pair<std::function<void()>, std::shared_ptr<Mark>>> tasks_;
    std::shared_ptr<Mark> tail_;
    bool destroyed_ = false;
};

namespace {

using Streams = std::vector<std::shared_ptr<Stream>>;

struct Host {
    static Host& get() {
        static auto& host = *new Host();
        return host;
    }

    std::mutex mutex;
    std::map<int, std::shared_ptr<Stream>> null = {};  // by device
    std::map<cudaStream_t, std::shared_ptr<Stream>> streams = {};
    std::vector<std::weak_ptr<Stream>> destroyed = {};  // which may still have work
    struct Capture {
        std::thread::id thread;
        cudaStreamCaptureMode mode;
    };
    std::map<const Stream*, Capture> captures = {};

    std::shared_ptr<Stream> start(int device, bool blocking, int priority) {
        auto stream = std::make_shared<Stream>(device, blocking, priority);
        std::thread([stream] { stream->work(); }).detach();
        return stream;
    }
    std::shared_ptr<Stream> null_of(int device) {
        auto& found = null[device];
        if (!found) found = start(device, true, 0);
        return found;
    }
    Streams of(int device, bool only_blocking) const {
        auto found = Streams{};
        const auto add = [&](const std::shared_ptr<Stream>& each) {
            if (each && each->device == device && (each->blocking || !only_blocking)) found.push_back(each);
        };
        for (const auto& [handle, stream] : streams) add(stream);
        for (const auto& each : destroyed) add(each.lock());
        return found;
    }
};

/// Says at exit what was not destroyed, where that was asked for.
const struct Leaks {
    ~Leaks() {
        auto& host = Host::get();
        if (setting("FAKE_LEAKS", 0) == 0) return;
        const auto lock = std::lock_guard(host.mutex);
        if (!host.streams.empty()) violation(host.streams.size(), " streams were not destroyed");
    }
} leaks;

}  // namespace

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    if (!handle || handle == cudaStreamLegacy) return host.null_of(current_device());
    const auto found = host.streams.find(handle);
    return found == host.streams.end() ? nullptr : found->second;
}

int device_of(const Stream& stream) { return stream.device; }

std::shared_ptr<Mark> enqueue(const std::shared_ptr<Stream>& stream, std::function<void()> task) {
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    if (host.captures.contains(stream.get()))
        violation("work is put on a stream that captures, and the fake has no graphs");
    const auto null = host.null.find(stream->device);
    const auto after = [&](const std::shared_ptr<Mark>& mark) {
        if (mark && !mark->happened()) stream->put([mark] { mark->wait(); });
    };
    if (null != host.null.end() && null->second == stream) {
        for (const auto& each : host.of(stream->device, true)) after(each->tail());
    } else if (null != host.null.end() && stream->blocking) {
        after(null->second->tail());
    }
    return stream->put(std::move(task));
}

void synchronize(int device) {
    auto tails = std::vector<std::shared_ptr<Mark>>{};
    {
        auto& host = Host::get();
        const auto lock = std::lock_guard(host.mutex);
        for (const auto& each : host.of(device, false)) tails.push_back(each->tail());
        if (host.null.contains(device)) tails.push_back(host.null[device]->tail());
    }
    for (const auto& each : tails)
        if (each) each->wait();
}

namespace {

struct Kernels {
    static Kernels& get() {
        static auto& kernels = *new Kernels();
        return kernels;
    }
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t count = 0;
    std::map<std::uint64_t, int> running = {};  // and their devices
};

}  // namespace

Kernel::Kernel(int device) {
    auto& kernels = Kernels::get();
    const auto lock = std::lock_guard(kernels.mutex);
    number_ = kernels.count++;
    kernels.running[number_] = device;
}

Kernel::~Kernel() {
    auto& kernels = Kernels::get();
    const auto lock = std::lock_guard(kernels.mutex);
    kernels.running.erase(number_);
    kernels.changed.notify_all();
}

void wait_for_peers(const char* call) {
    if (setting("FAKE_PEERS", 0) == 0) return;
    const auto own = current_device();
    // Half of it, before the kernel that waits for this rank loses its own.
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(setting("FAKE_PATIENCE", 60000) / 2);
    auto& kernels = Kernels::get();
    auto lock = std::unique_lock(kernels.mutex);
    const auto before = kernels.running;
    for (const auto& [number, device] : before)
        if (device != own &&
            !kernels.changed.wait_until(lock, until, [&] { return !kernels.running.contains(number); }))
            violation(call, " on device ", own, " waits in vain for a kernel of its peer, device ", device,
                      "; allocate and free with a barrier of the host before the next call");
}

namespace {
thread_local auto capture_mode = cudaStreamCaptureModeGlobal;
}

void demand_no_capture(const char* call) {
    if (capture_mode == cudaStreamCaptureModeRelaxed) return;
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    for (const auto& [stream, capture] : host.captures) {
        const auto own = capture.thread == std::this_thread::get_id();
        if ((own && capture.mode != cudaStreamCaptureModeRelaxed) ||
            (capture_mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal))
            violation(call,
                      " while a stream captures invalidates the capture; exchange the thread's mode "
                      "(cudaThreadExchangeStreamCaptureMode) before");
    }
}

}  // namespace fake_cuda

using namespace fake_cuda;

std::vector<int> fake::priorities(int device) {
    auto found = std::vector<int>{};
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    for (const auto& [handle, stream] : host.streams)
        if (stream->device == device) found.push_back(stream->priority);
    std::sort(found.begin(), found.end());
    return found;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned int flags, int priority) {
    FAKE_CUDA_READY();
    if (!handle || (flags != cudaStreamDefault && flags != cudaStreamNonBlocking))
        return said(cudaErrorInvalidValue);
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    auto stream = host.start(current_device(), flags == cudaStreamDefault, std::clamp(priority, -5, 0));
    *handle = reinterpret_cast<cudaStream_t>(stream.get());
    host.streams[*handle] = std::move(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned int flags) {
    return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* handle) {
    return cudaStreamCreateWithPriority(handle, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    FAKE_CUDA_READY();
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    const auto found = host.streams.find(handle);
    if (found == host.streams.end()) return said(cudaErrorInvalidResourceHandle);
    found->second->destroy();
    std::erase_if(host.destroyed, [](const auto& each) { return each.expired(); });
    host.destroyed.push_back(found->second);
    host.streams.erase(found);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    FAKE_CUDA_READY();
    demand_no_capture(__func__);
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    enqueue(stream, nullptr)->wait();
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    FAKE_CUDA_READY();
    demand_no_capture(__func__);
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    const auto idle = [](const Stream& each) {
        const auto tail = each.tail();
        return !tail || tail->happened();
    };
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    auto done = idle(*stream);
    if (!handle || handle == cudaStreamLegacy)
        for (const auto& each : host.of(stream->device, true)) done = done && idle(*each);
    return done ? cudaSuccess : said(cudaErrorNotReady);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    if (!priority) return said(cudaErrorInvalidValue);
    *priority = stream->priority;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    if (!flags) return said(cudaErrorInvalidValue);
    *flags = stream->blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    if (!device) return said(cudaErrorInvalidValue);
    *device = stream->device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    FAKE_CUDA_READY();
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    if (!function) return said(cudaErrorInvalidValue);
    enqueue(stream, [=] { function(data); });
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
    FAKE_CUDA_READY();
    demand_no_capture(__func__);
    synchronize(current_device());
    return cudaSuccess;
}

// Graphs are not fake: a stream can capture, but nothing can be put on it meanwhile.
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    if (!status) return said(cudaErrorInvalidValue);
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    *status =
        host.captures.contains(stream.get()) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
    FAKE_CUDA_READY();
    if (!handle || handle == cudaStreamLegacy) return said(cudaErrorStreamCaptureUnsupported);
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    host.captures[stream.get()] = {std::this_thread::get_id(), mode};
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream || !graph) return said(cudaErrorInvalidValue);
    auto& host = Host::get();
    const auto lock = std::lock_guard(host.mutex);
    *graph = nullptr;
    return host.captures.erase(stream.get()) > 0 ? cudaSuccess : said(cudaErrorIllegalState);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    if (!mode) return said(cudaErrorInvalidValue);
    std::swap(*mode, capture_mode);
    return cudaSuccess;
}
