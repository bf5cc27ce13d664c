// SPDX-License-Identifier: Apache-2.0
// Devices, memory, streams and events as the CUDA runtime has them.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "fake/ranks.hpp"

namespace {

using ranks::Array;

/// A task that keeps a stream busy until it is let go.
class Gate {
public:
    explicit Gate(cudaStream_t stream) {
        EXPECT_CUDA(cudaLaunchHostFunc(
            stream,
            [](void* open) {
                while (!*static_cast<std::atomic<bool>*>(open))
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
            },
            &open_));
    }
    void open() { open_ = true; }

private:
    std::atomic<bool> open_ = false;
};

struct Stream {
    explicit Stream(unsigned flags = cudaStreamNonBlocking) {
        EXPECT_CUDA(cudaStreamCreateWithFlags(&handle, flags));
    }
    ~Stream() { EXPECT_CUDA(cudaStreamDestroy(handle)); }
    cudaStream_t handle = nullptr;
};

cudaEvent_t new_event() {
    auto event = cudaEvent_t{};
    EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

}  // namespace

TEST(FakeCuda, HasAsManyDevicesAsTheEnvironmentSays) {
    auto count = 0;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(count, 8);
    setenv("FAKE_DEVICES", "3", 1);
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    setenv("CUDA_VISIBLE_DEVICES", "2,0,7,1", 1);
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    EXPECT_EQ(count, 2);
    char id[32];
    EXPECT_CUDA(cudaDeviceGetPCIBusId(id, sizeof id, 0));
    EXPECT_STREQ(id, "0000:02:00.0");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("FAKE_DEVICES");
}

TEST(FakeCuda, CanBeWithoutDevicesOrDriver) {
    auto count = 7;
    setenv("FAKE_DEVICES", "0", 1);
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    unsetenv("FAKE_DEVICES");
    setenv("FAKE_DRIVER", "0", 1);
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    EXPECT_EQ(count, 7);
    EXPECT_STREQ(cudaGetErrorName(cudaErrorInsufficientDriver), "cudaErrorInsufficientDriver");
    EXPECT_EQ(cudaDriverGetVersion(&count), cudaSuccess);
    EXPECT_EQ(count, 0);
    unsetenv("FAKE_DRIVER");
    cudaGetLastError();
}

TEST(FakeCuda, FailsWhereThatIsPlanted) {
    setenv("FAKE_FAIL", "cudaMalloc", 1);
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorUnknown);
    unsetenv("FAKE_FAIL");
    EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
}

TEST(FakeCuda, GivesEachThreadDevice0AtFirst) {
    EXPECT_CUDA(cudaSetDevice(2));
    auto device = -1;
    std::thread([&] { EXPECT_CUDA(cudaGetDevice(&device)); }).join();
    EXPECT_EQ(device, 0);
}

TEST(FakeCuda, KeepsMemoryOfDevicesFromTheHost) {
    EXPECT_CUDA(cudaSetDevice(1));
    const auto array = Array<int>(4, 7);
    auto about = cudaPointerAttributes{};
    EXPECT_CUDA(cudaPointerGetAttributes(&about, *array + 3));
    EXPECT_EQ(about.type, cudaMemoryTypeDevice);
    EXPECT_EQ(about.device, 1);
    EXPECT_DEATH(std::exit(**array == 7 ? 0 : 1), "");
    auto host = 0;
    EXPECT_CUDA(cudaPointerGetAttributes(&about, &host));
    EXPECT_EQ(about.type, cudaMemoryTypeUnregistered);
}

TEST(FakeCuda, RefusesCopiesBeyondMemory) {
    const auto array = Array<int>(4);
    int host[8] = {};
    EXPECT_EQ(cudaMemcpy(*array, host, sizeof host, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(host, *array, sizeof(int), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemset(host, 0, 4), cudaErrorInvalidValue);
    void* freed = nullptr;
    EXPECT_CUDA(cudaMalloc(&freed, 16));
    EXPECT_CUDA(cudaFree(freed));
    EXPECT_EQ(cudaMemcpy(host, freed, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    EXPECT_EQ(cudaFree(freed), cudaErrorInvalidValue);
    cudaGetLastError();
}

TEST(FakeCuda, RunsStreamsLater) {
    const auto stream = Stream();
    const auto array = Array<int>(1, 1);
    auto gate = Gate(stream.handle);
    EXPECT_CUDA(cudaMemsetAsync(*array, 0, sizeof(int), stream.handle));
    EXPECT_EQ(cudaStreamQuery(stream.handle), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    EXPECT_EQ(array.values(), std::vector<int>{1});
    gate.open();
    EXPECT_CUDA(cudaStreamSynchronize(stream.handle));
    EXPECT_EQ(cudaStreamQuery(stream.handle), cudaSuccess);
    EXPECT_EQ(array.values(), std::vector<int>{0});
}

TEST(FakeCuda, OrdersStreamsByEvents) {
    const auto one = Stream(), other = Stream();
    const auto array = Array<unsigned char>(1, 1);
    auto gate = Gate(one.handle);
    const auto event = new_event();
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // was never recorded
    EXPECT_CUDA(cudaMemsetAsync(*array, 2, 1, one.handle));
    EXPECT_CUDA(cudaEventRecord(event, one.handle));
    EXPECT_CUDA(cudaStreamWaitEvent(other.handle, event, 0));
    EXPECT_CUDA(cudaMemsetAsync(*array, 3, 1, other.handle));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    gate.open();
    EXPECT_CUDA(cudaStreamSynchronize(other.handle));
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
    EXPECT_EQ(array.values(), std::vector<unsigned char>{3});
    EXPECT_CUDA(cudaEventDestroy(event));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
}

TEST(FakeCuda, OrdersTheNullStreamWithStreamsThatBlockOnly) {
    const auto blocking = Stream(cudaStreamDefault), free = Stream();
    const auto array = Array<unsigned char>(2);
    auto one = Gate(blocking.handle);
    auto other = Gate(free.handle);
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    EXPECT_CUDA(cudaMemsetAsync(*array, 1, 1, blocking.handle));
    EXPECT_CUDA(cudaMemsetAsync(*array, 2, 1, nullptr));  // after that
    EXPECT_CUDA(cudaMemsetAsync(*array + 1, 1, 1, nullptr));
    EXPECT_CUDA(cudaMemsetAsync(*array + 1, 2, 1, blocking.handle));  // and after that
    std::this_thread::sleep_for(std::chrono::milliseconds(20));       // in which all could happen too early
    one.open();
    EXPECT_CUDA(cudaStreamSynchronize(nullptr));
    EXPECT_EQ(cudaStreamQuery(free.handle), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    EXPECT_EQ(array.values(), (std::vector<unsigned char>{2, 2}));
    other.open();
    EXPECT_CUDA(cudaDeviceSynchronize());
}

TEST(FakeCuda, ReadsPinnedMemoryLaterAndOtherMemoryAtOnce) {
    const auto stream = Stream();
    const auto array = Array<int>(2);
    int* pinned = nullptr;
    EXPECT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)));
    auto host = *pinned = 1;
    auto gate = Gate(stream.handle);
    EXPECT_CUDA(cudaMemcpyAsync(*array, &host, sizeof(int), cudaMemcpyHostToDevice, stream.handle));
    EXPECT_CUDA(cudaMemcpyAsync(*array + 1, pinned, sizeof(int), cudaMemcpyHostToDevice, stream.handle));
    host = *pinned = 2;
    gate.open();
    EXPECT_CUDA(cudaStreamSynchronize(stream.handle));
    EXPECT_EQ(array.values(), (std::vector<int>{1, 2}));
    EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST(FakeCuda, KeepsWhatAQueryAnsweredAsTheLastError) {
    const auto stream = Stream();
    auto gate = Gate(stream.handle);
    EXPECT_EQ(cudaStreamQuery(stream.handle), cudaErrorNotReady);
    EXPECT_DEATH(cudaSetDevice(0), "cudaSetDevice finds cudaErrorNotReady of a query in the last error");
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    gate.open();
    EXPECT_CUDA(cudaStreamSynchronize(stream.handle));
}

TEST(FakeCuda, CapturesNothing) {
    const auto stream = Stream();
    auto status = cudaStreamCaptureStatusActive;
    EXPECT_CUDA(cudaStreamIsCapturing(stream.handle, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
    EXPECT_CUDA(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal));
    EXPECT_CUDA(cudaStreamIsCapturing(stream.handle, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_DEATH(cudaLaunchHostFunc(
                     stream.handle, [](void*) {}, nullptr),
                 "on a stream that captures");
    const auto event = new_event();
    EXPECT_DEATH(std::thread([&] { cudaEventQuery(event); }).join(),
                 "cudaEventQuery while a stream captures invalidates the capture");
    std::thread([&] {
        auto mode = cudaStreamCaptureModeRelaxed;
        EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
        EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
        EXPECT_CUDA(cudaEventQuery(event));
    }).join();
    auto graph = cudaGraph_t{};
    EXPECT_CUDA(cudaStreamEndCapture(stream.handle, &graph));
    EXPECT_CUDA(cudaEventQuery(event));
    EXPECT_CUDA(cudaEventDestroy(event));
}

TEST(FakeCuda, SaysWhatIsLeftAtExit) {
    const auto leaving = [](auto leak) {
        setenv("FAKE_LEAKS", "1", 1);
        leak();
        std::exit(0);
    };
    EXPECT_EXIT(leaving([] {}), testing::ExitedWithCode(0), "");
    EXPECT_DEATH(leaving([] {
                     void* memory = nullptr;
                     cudaMalloc(&memory, 12);
                 }),
                 "fake cuda: violation: 1 pieces of device memory were not freed, the first of 12 bytes");
    EXPECT_DEATH(leaving([] {
                     auto stream = cudaStream_t{};
                     cudaStreamCreate(&stream);
                 }),
                 "fake cuda: violation: 1 streams were not destroyed");
    EXPECT_DEATH(leaving([] { new_event(); }), "fake cuda: violation: 1 events were not destroyed");
}
