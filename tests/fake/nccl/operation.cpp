// SPDX-License-Identifier: Apache-2.0
#include "fake/nccl/operation.hpp"

namespace fake_nccl {
namespace {

struct Type {
    const char* name;
    std::size_t size;
};
constexpr Type types[ncclNumTypes] = {
    {"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},      {"ncclUint32", 4},
    {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2},    {"ncclFloat32", 4},
    {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1},
};
constexpr const char* reductions[ncclNumOps] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};

/// The one place where a buffer may lie in the other.
bool is_in_place(const Operation& operation) {
    const auto* in = static_cast<const char*>(operation.in);
    const auto* out = static_cast<const char*>(operation.out);
    const auto bytes = operation.bytes();
    const auto rank = static_cast<std::size_t>(operation.communicator->rank);
    switch (operation.function) {
        case Function::all_reduce:
        case Function::reduce:
        case Function::broadcast:
            return in == out;
        case Function::reduce_scatter:
        case Function::scatter:
            return out == in + rank * bytes;
        case Function::all_gather:
        case Function::gather:
            return in == out + rank * bytes;
        default:
            return false;
    }
}

fake_cuda::Location place_of(const Operation& operation, const char* which, const void* address,
                             std::size_t bytes) {
    const auto& communicator = *operation.communicator;
    auto place = fake_cuda::find(address, bytes);
    if (!place.of && setting("NCCL_CHECK_POINTERS", 0) != 0)
        throw Failure{ncclInvalidArgument, text(operation.words(), ": ", which, " is not a valid pointer")};
    if (!place.of)
        violation(operation.words(), " on communicator ", communicator.name, ": the ", bytes, " bytes of ",
                  which, " do not lie in memory of a device");
    if (place.of->device != communicator.device)
        violation(operation.words(), " on communicator ", communicator.name, ": ", which,
                  " lies in memory of device ", place.of->device, ", the communicator is on ",
                  communicator.device);
    return place;
}

}  // namespace

const char* name_of(Function function) {
    constexpr const char* names[] = {"ncclAllReduce", "ncclReduce",   "ncclBroadcast", "ncclReduceScatter",
                                     "ncclAllGather", "ncclAlltoAll", "ncclGather",    "ncclScatter",
                                     "ncclSend",      "ncclRecv"};
    return names[static_cast<int>(function)];
}

std::size_t size_of(ncclDataType_t type) { return types[type].size; }

std::size_t Operation::bytes() const { return count * size_of(type); }

std::size_t Operation::bytes_in() const {
    const auto size = static_cast<std::size_t>(communicator->size());
    switch (function) {
        case Function::broadcast:
            return at_root() ? bytes() : 0;
        case Function::reduce_scatter:
        case Function::all_to_all:
            return bytes() * size;
        case Function::scatter:
            return at_root() ? bytes() * size : 0;
        case Function::receive:
            return 0;
        default:
            return bytes();
    }
}

std::size_t Operation::bytes_out() const {
    const auto size = static_cast<std::size_t>(communicator->size());
    switch (function) {
        case Function::reduce:
            return at_root() ? bytes() : 0;
        case Function::all_gather:
        case Function::all_to_all:
            return bytes() * size;
        case Function::gather:
            return at_root() ? bytes() * size : 0;
        case Function::send:
            return 0;
        default:
            return bytes();
    }
}

std::string Operation::content() const { return text(count, " ", types[type].name); }

std::string Operation::words() const {
    auto what = text(name_of(function), " of ", content());
    if (reduces())
        what += text(" by ", reduction < ncclNumOps ? reductions[reduction] : "a sum of scaled values");
    if (is_message()) return what + text(function == Function::send ? " to rank " : " from rank ", root);
    return root < 0 ? what : what + text(" with root ", root);
}

Piece piece_for(const Operation& operation, int peer) {
    const auto bytes = operation.bytes();
    const auto block = static_cast<std::size_t>(peer) * bytes;
    switch (operation.function) {
        case Function::reduce:
        case Function::gather:
            return {0, peer == operation.root ? bytes : 0};
        case Function::broadcast:
            return {0, operation.at_root() ? bytes : 0};
        case Function::reduce_scatter:
        case Function::all_to_all:
            return {block, bytes};
        case Function::scatter:
            return {block, operation.at_root() ? bytes : 0};
        default:
            return {0, bytes};
    }
}

void check(Operation& operation) {
    auto& communicator = *operation.communicator;
    const auto refuse = [&](const auto&... why) {
        throw Failure{ncclInvalidArgument, text(name_of(operation.function), ": ", why...)};
    };
    if (operation.type < 0 || operation.type >= ncclNumTypes)
        refuse("there is no data type ", operation.type);
    const auto has_root =
        operation.function != Function::all_reduce && operation.function != Function::reduce_scatter &&
        operation.function != Function::all_gather && operation.function != Function::all_to_all;
    if (has_root && (operation.root < 0 || operation.root >= communicator.size()))
        refuse("there is no rank ", operation.root, " among ", communicator.size());
    if (operation.reduction >= ncclNumOps || operation.reduction < 0) {
        const auto index = static_cast<std::size_t>(operation.reduction - ncclNumOps);
        if (operation.reduction < 0 || index >= communicator.scaled.size() || !communicator.scaled[index])
            refuse("there is no reduction ", operation.reduction);
        operation.scaled = communicator.scaled[index];
        if (operation.scaled->type != operation.type) refuse("the reduction was made for another type");
    }
    if (!operation.stream) refuse("the stream is none");
    if (communicator.finalized)
        violation(operation.words(), " on communicator ", communicator.name, " after ncclCommFinalize");
    if (communicator.suspended)
        violation(operation.words(), " on communicator ", communicator.name, " while it is suspended");
    if (fake_cuda::current_device() != communicator.device)
        violation(operation.words(), " on communicator ", communicator.name, " of device ",
                  communicator.device, " while device ", fake_cuda::current_device(), " is current");
    if (fake_cuda::device_of(*operation.stream) != communicator.device)
        violation(operation.words(), " on communicator ", communicator.name, " of device ",
                  communicator.device, " on a stream of device ", fake_cuda::device_of(*operation.stream));

    if (operation.count > 0 &&
        (operation.function == Function::gather || operation.function == Function::scatter) &&
        (!operation.in || !operation.out) && setting("NCCL_CHECK_POINTERS", 0) != 0)
        throw Failure{ncclInvalidArgument, text(operation.words(), ": a buffer is null")};
    const auto in = operation.bytes_in(), out = operation.bytes_out();
    if (in > 0) operation.from = place_of(operation, "sendbuff", operation.in, in);
    if (out > 0) operation.to = place_of(operation, "recvbuff", operation.out, out);
    const auto* from = static_cast<const char*>(operation.in);
    const auto* to = static_cast<const char*>(operation.out);
    if (in > 0 && out > 0 && from < to + out && to < from + in && !is_in_place(operation))
        violation(operation.words(), " on communicator ", communicator.name,
                  ": the buffers overlap in another way than in place");
}

}  // namespace fake_nccl
