// SPDX-License-Identifier: Apache-2.0
// Ranks with a device, a communicator of all of them and a stream each: as threads or as processes.
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <string>
#include <vector>

namespace ranks {

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)
#define EXPECT_NCCL(call) EXPECT_EQ(call, ncclSuccess)

struct Rank {
    int rank;
    int size;
    ncclUniqueId id;
    ncclComm_t world = nullptr;
    cudaStream_t stream = nullptr;

    void synchronize() const { EXPECT_CUDA(cudaStreamSynchronize(stream)); }
};

using Program = std::function<void(Rank&)>;

/// Runs a program on ranks that are threads. `destroyed`: their communicator and stream are, afterwards.
void as_threads(int size, const Program& program, bool destroyed = true);
/// The thread of one rank: takes device `rank`, connects to the others, runs the program.
void as_rank(Rank rank, const Program& program, bool destroyed = true);

/// A program that can be started by its name as processes.
struct Named {
    Named(std::string name, Program program);
};
struct Outcome {
    std::vector<int> exit_codes;
    std::vector<std::string> outputs;
};
Outcome as_processes(int size, const std::string& name);
/// What `main` does in such a process; -1: this is none.
int run_named();

/// Elements on the current device.
template <class T>
class Array {
public:
    explicit Array(const std::vector<T>& values) : size_(values.size()) {
        EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T)));
        EXPECT_CUDA(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
    }
    explicit Array(std::size_t size, T each = T{}) : Array(std::vector<T>(size, each)) {}
    ~Array() { EXPECT_CUDA(cudaFree(data_)); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    T* operator*() const { return data_; }
    std::size_t size() const { return size_; }
    std::vector<T> values() const {
        auto values = std::vector<T>(size_);
        EXPECT_CUDA(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

private:
    std::size_t size_;
    T* data_ = nullptr;
};

}  // namespace ranks
