// SPDX-License-Identifier: Apache-2.0
// Who asks for the libraries and their functions by name finds them. They have the headers' signatures: the
// name of one of any other would not be C's, and so not be found.
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace {

constexpr const char* of_cuda[] = {"cudaDeviceGetPCIBusId",
                                   "cudaDeviceGetStreamPriorityRange",
                                   "cudaDeviceSynchronize",
                                   "cudaDriverGetVersion",
                                   "cudaEventCreate",
                                   "cudaEventCreateWithFlags",
                                   "cudaEventDestroy",
                                   "cudaEventQuery",
                                   "cudaEventRecord",
                                   "cudaEventSynchronize",
                                   "cudaFree",
                                   "cudaFreeAsync",
                                   "cudaFreeHost",
                                   "cudaGetDevice",
                                   "cudaGetDeviceCount",
                                   "cudaGetErrorName",
                                   "cudaGetErrorString",
                                   "cudaGetLastError",
                                   "cudaLaunchHostFunc",
                                   "cudaMalloc",
                                   "cudaMallocAsync",
                                   "cudaMallocHost",
                                   "cudaMemGetInfo",
                                   "cudaMemcpy",
                                   "cudaMemcpyAsync",
                                   "cudaMemset",
                                   "cudaMemsetAsync",
                                   "cudaPeekAtLastError",
                                   "cudaPointerGetAttributes",
                                   "cudaRuntimeGetVersion",
                                   "cudaSetDevice",
                                   "cudaStreamBeginCapture",
                                   "cudaStreamCreate",
                                   "cudaStreamCreateWithFlags",
                                   "cudaStreamCreateWithPriority",
                                   "cudaStreamDestroy",
                                   "cudaStreamEndCapture",
                                   "cudaStreamGetDevice",
                                   "cudaStreamGetFlags",
                                   "cudaStreamGetPriority",
                                   "cudaStreamIsCapturing",
                                   "cudaStreamQuery",
                                   "cudaStreamSynchronize",
                                   "cudaStreamWaitEvent"};
constexpr const char* of_nccl[] = {"ncclAllGather",
                                   "ncclAllReduce",
                                   "ncclAlltoAll",
                                   "ncclBcast",
                                   "ncclBroadcast",
                                   "ncclCommAbort",
                                   "ncclCommCount",
                                   "ncclCommCuDevice",
                                   "ncclCommDeregister",
                                   "ncclCommDestroy",
                                   "ncclCommFinalize",
                                   "ncclCommGetAsyncError",
                                   "ncclCommInitRank",
                                   "ncclCommInitRankConfig",
                                   "ncclCommInitRankScalable",
                                   "ncclCommRegister",
                                   "ncclCommRevoke",
                                   "ncclCommShrink",
                                   "ncclCommSplit",
                                   "ncclCommUserRank",
                                   "ncclCommWindowDeregister",
                                   "ncclCommWindowRegister",
                                   "ncclGather",
                                   "ncclGetErrorString",
                                   "ncclGetLastError",
                                   "ncclGetUniqueId",
                                   "ncclGetVersion",
                                   "ncclGroupEnd",
                                   "ncclGroupStart",
                                   "ncclMemAlloc",
                                   "ncclMemFree",
                                   "ncclRecv",
                                   "ncclRedOpCreatePreMulSum",
                                   "ncclRedOpDestroy",
                                   "ncclReduce",
                                   "ncclReduceScatter",
                                   "ncclScatter",
                                   "ncclSend"};

template <std::size_t size>
void expect_names(const char* library, const char* const (&names)[size]) {
    auto* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    for (const auto* each : names) EXPECT_NE(dlsym(handle, each), nullptr) << each;
    dlclose(handle);
}

}  // namespace

TEST(FakeNames, AreThoseOfTheHeaders) {
    expect_names(FAKE_CUDART, of_cuda);
    expect_names("libnccl.so.2", of_nccl);
}
