// SPDX-License-Identifier: Apache-2.0
// Memory and streams of the current CUDA device, for tests.
#pragma once

#include <cuda_runtime_api.h>

#include <latch>
#include <stdexcept>
#include <vector>

#include <rankmesh/engine/device.hpp>

namespace support {

inline void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::logic_error(cudaGetErrorString(error));
}

/// Elements on the device, and who owns them.
template <class T>
class DeviceArray {
public:
    explicit DeviceArray(std::size_t size, T each = {}) : DeviceArray(std::vector<T>(size, each)) {}
    explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
        auto* made = static_cast<void*>(nullptr);
        check(cudaMalloc(&made, bytes()));
        data_ = static_cast<T*>(made);
        check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
    }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    rankmesh::Memory<T> operator*() const { return {data_, size_}; }
    std::vector<T> values() const {
        auto values = std::vector<T>(size_);
        check(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
        return values;
    }
    /// Puts another value for each element on a stream.
    void fill(cudaStream_t stream, const std::vector<T>& values) {
        check(cudaMemcpyAsync(data_, values.data(), bytes(), cudaMemcpyHostToDevice, stream));
    }

private:
    std::size_t bytes() const { return size_ * sizeof(T); }
    std::size_t size_;
    T* data_ = nullptr;
};

/// A stream of the current device.
class DeviceStream {
public:
    DeviceStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
    ~DeviceStream() { cudaStreamDestroy(stream_); }
    DeviceStream(const DeviceStream&) = delete;
    DeviceStream& operator=(const DeviceStream&) = delete;

    cudaStream_t operator*() const { return stream_; }
    rankmesh::Stream stream() const { return {stream_}; }
    void synchronize() const { check(cudaStreamSynchronize(stream_)); }
    /// What is put on it after this waits until the latch is open.
    void wait(std::latch& gate) const {
        check(cudaLaunchHostFunc(
            stream_, [](void* latch) { static_cast<std::latch*>(latch)->wait(); }, &gate));
    }

private:
    cudaStream_t stream_ = nullptr;
};

}  // namespace support
