// SPDX-License-Identifier: Apache-2.0
// The operations of nccl.h.
#include "fake/nccl/group.hpp"

using namespace fake_nccl;

namespace {

ncclResult_t call(Function function, const void* in, void* out, std::size_t count, ncclDataType_t type,
                  ncclRedOp_t reduction, int root, ncclComm_t handle, cudaStream_t stream) {
    return answer([&] {
        const auto* name = name_of(function);
        fail_where_planted(name);
        const auto communicator = of(handle, name);
        if (communicator->revoked) throw Failure{ncclInvalidUsage, text(name, ": communicator was revoked")};
        enter(gate_of_device(communicator->device), name, text("device ", communicator->device));
        if (stream == cudaStreamPerThread && !communicator->is_blocking())
            violation(name, " on cudaStreamPerThread, which is another stream on the thread that launches");
        auto operation = Operation{
            function, in, out, count, type, reduction, root, communicator, fake_cuda::stream_of(stream)};
        try {
            ready(handle, name);
            check(operation);
        } catch (const Failure& failure) {
            communicator->stick(failure);
            throw;
        }
        if (count == 0 && !operation.is_message()) return;  // the real one does nothing either
        submit(std::move(operation));
    });
}

}  // namespace

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::all_reduce, in, out, count, type, reduction, -1, communicator, stream);
}

ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::reduce, in, out, count, type, reduction, root, communicator, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::broadcast, in, out, count, type, ncclSum, root, communicator, stream);
}

ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t communicator, cudaStream_t stream) {
    return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::reduce_scatter, in, out, count, type, reduction, -1, communicator, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::all_gather, in, out, count, type, ncclSum, -1, communicator, stream);
}

ncclResult_t ncclAlltoAll(const void* in, void* out, std::size_t count, ncclDataType_t type,
                          ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::all_to_all, in, out, count, type, ncclSum, -1, communicator, stream);
}

ncclResult_t ncclGather(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                        ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::gather, in, out, count, type, ncclSum, root, communicator, stream);
}

ncclResult_t ncclScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                         ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::scatter, in, out, count, type, ncclSum, root, communicator, stream);
}

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
    return call(Function::send, in, nullptr, count, type, ncclSum, peer, communicator, stream);
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
    return call(Function::receive, nullptr, out, count, type, ncclSum, peer, communicator, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* reduction, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t handle) {
    return answer([&] {
        auto communicator = ready(handle, "ncclRedOpCreatePreMulSum");
        if (!reduction || !scalar || type < 0 || type >= ncclNumTypes)
            throw Failure{ncclInvalidArgument,
                          "ncclRedOpCreatePreMulSum: an argument is missing or no data type"};
        auto made = Scaled{type, {}, nullptr};
        if (residence == ncclScalarDevice)
            made.on_device = scalar;
        else
            made.scalar.assign(static_cast<const char*>(scalar), size_of(type));
        *reduction = static_cast<ncclRedOp_t>(static_cast<int>(ncclNumOps) +
                                              static_cast<int>(communicator->scaled.size()));
        communicator->scaled.push_back(std::move(made));
    });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t reduction, ncclComm_t handle) {
    return answer([&] {
        auto communicator = of(handle, "ncclRedOpDestroy");
        const auto index = static_cast<std::size_t>(reduction - ncclNumOps);
        if (reduction < ncclNumOps || index >= communicator->scaled.size() || !communicator->scaled[index])
            throw Failure{ncclInvalidArgument, text("ncclRedOpDestroy: there is no reduction ", reduction)};
        communicator->scaled[index].reset();
    });
}
