// SPDX-License-Identifier: Apache-2.0
// An NCCL and a CUDA runtime in one, whose calls succeed and do nothing: what a call through the engine takes
// on them is the engine's own. They are found by name, so none of their headers is needed.
#include <cstddef>
#include <cstdlib>

extern "C" {

int ncclGetVersion(int* version) {
    *version = 1'000'000;
    return 0;
}
int ncclCommInitRankConfig(void** comm) {
    *comm = std::calloc(1, 1);
    return 0;
}
int ncclCommSplit(void*, int, int, void** comm) {
    *comm = std::calloc(1, 1);
    return 0;
}
int ncclCommGetAsyncError(void*, int* state) {
    *state = 0;
    return 0;
}
int cudaGetDeviceCount(int* count) {
    *count = 1 << 20;
    return 0;
}
int cudaPointerGetAttributes(int* type) {
    *type = 3;  // managed: memory of any device
    return 0;
}
int cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = *total = 0;
    return 0;
}
int cudaMalloc(void** memory, std::size_t size) {
    *memory = std::calloc(size, 1);
    return 0;
}
int cudaFree(void* memory) {
    std::free(memory);
    return 0;
}

#define RANKMESH_IDLE(name) \
    int name() { return 0; }
RANKMESH_IDLE(cudaDeviceGetStreamPriorityRange)
RANKMESH_IDLE(cudaEventCreateWithFlags)
RANKMESH_IDLE(cudaEventDestroy)
RANKMESH_IDLE(cudaEventQuery)
RANKMESH_IDLE(cudaEventRecord)
RANKMESH_IDLE(cudaFreeAsync)
RANKMESH_IDLE(cudaGetErrorString)
RANKMESH_IDLE(cudaGetLastError)
RANKMESH_IDLE(cudaMallocAsync)
RANKMESH_IDLE(cudaMemcpy)
RANKMESH_IDLE(cudaMemcpyAsync)
RANKMESH_IDLE(cudaMemsetAsync)
RANKMESH_IDLE(cudaSetDevice)
RANKMESH_IDLE(cudaStreamCreateWithPriority)
RANKMESH_IDLE(cudaStreamDestroy)
RANKMESH_IDLE(cudaStreamWaitEvent)
RANKMESH_IDLE(ncclAllGather)
RANKMESH_IDLE(ncclAllReduce)
RANKMESH_IDLE(ncclAlltoAll)
RANKMESH_IDLE(ncclBroadcast)
RANKMESH_IDLE(ncclCommAbort)
RANKMESH_IDLE(ncclCommCount)
RANKMESH_IDLE(ncclCommCuDevice)
RANKMESH_IDLE(ncclCommDestroy)
RANKMESH_IDLE(ncclCommFinalize)
RANKMESH_IDLE(ncclCommInitRankScalable)
RANKMESH_IDLE(ncclCommUserRank)
RANKMESH_IDLE(ncclGather)
RANKMESH_IDLE(ncclGetErrorString)
RANKMESH_IDLE(ncclGetLastError)
RANKMESH_IDLE(ncclGetUniqueId)
RANKMESH_IDLE(ncclGroupEnd)
RANKMESH_IDLE(ncclGroupStart)
RANKMESH_IDLE(ncclRecv)
RANKMESH_IDLE(ncclReduce)
RANKMESH_IDLE(ncclReduceScatter)
RANKMESH_IDLE(ncclScatter)
RANKMESH_IDLE(ncclSend)
RANKMESH_IDLE(cudaStreamCreate)
RANKMESH_IDLE(cudaStreamSynchronize)

}  // extern "C"
