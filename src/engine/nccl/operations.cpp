// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/operations.hpp"

#include <iterator>

#include <rankmesh/core/error.hpp>

#include "engine/roles.hpp"

namespace rankmesh::detail {

std::optional<ncclDataType_t> nccl_type(DType dtype) {
    constexpr auto none = std::nullopt;
    constexpr std::optional<ncclDataType_t> types[] = {
        ncclInt8,  none, ncclInt32, ncclInt64, ncclUint8,   none,         ncclUint32,  ncclUint64,
        ncclUint8, none, none,      none,      ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64};
    static_assert(std::size(types) == static_cast<std::size_t>(DType::f64) + 1);
    return types[static_cast<std::size_t>(dtype)];
}

std::optional<ncclRedOp_t> nccl_reduction(Reduction reduction, DType dtype) {
    constexpr ncclRedOp_t numeric[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};  // up to mean
    if (reduction <= Reduction::mean) return numeric[static_cast<std::size_t>(reduction)];
    if (dtype == DType::boolean && reduction == Reduction::logical_and) return ncclMin;
    if (dtype == DType::boolean && reduction == Reduction::logical_or) return ncclMax;
    return std::nullopt;
}

void check_nccl(const Call& call, const Label& label, int group_rank) {
    const auto to_self = call.argument == group_rank && call.source == group_rank;
    if (call.operation == Operation::send_recv && to_self && call.in_count != call.out_count)
        throw UsageError(cat("a send_recv of ", call.in_count, " elements to oneself and ", call.out_count,
                             " from oneself; both must be equal"));
    if (!reduces(call.operation)) return;
    const auto refuse = [&](const std::string& why) {
        throw UsageError(cat(to_string(call), " on ", label.text(), ": NCCL ", why,
                             "; the same call on host() has all of them"));
    };
    if (by_function(call.reduction))
        refuse(cat("has no ", call.reduction == Reduction::user_defined
                                  ? std::string_view("reductions by functions of its callers")
                                  : to_string(call.reduction)));
    if (!nccl_type(call.dtype))
        refuse(cat("reduces no ", to_string(call.dtype),
                   ", only i8, i32, i64, u8, u32, u64, f16, bf16, f32 and f64"));
    if (!nccl_reduction(call.reduction, call.dtype))
        refuse(cat("has no ", to_string(call.reduction),
                   call.dtype == DType::boolean
                       ? " of bools, only logical_and and logical_or"
                       : ", only sum, prod, min, max and mean, and logical_and and logical_or of bools"));
    const auto scans = call.operation == Operation::scan || call.operation == Operation::exclusive_scan;
    if (scans && call.reduction != Reduction::sum) refuse("has no scan, and one is made for it by sum only");
}

namespace {

constexpr auto bytes_type = ncclUint8;  // the type of elements that are not reduced

/// Groups the NCCL calls made during its lifetime (ncclGroupStart, ncclGroupEnd).
class Group {
public:
    explicit Group(const Nccl& nccl) : nccl_(nccl) { add(nccl.group_start()); }
    ~Group() {
        if (open_) nccl_.group_end();
    }
    Group& operator=(Group&&) = delete;
    void add(ncclResult_t result) {
        if (result_ == ncclSuccess || result_ == ncclInProgress) result_ = result;
    }
    /// The first error, else the result of ncclGroupEnd.
    ncclResult_t end() {
        open_ = false;
        const auto before = result_;
        const auto ended = nccl_.group_end();
        return before == ncclSuccess || before == ncclInProgress ? ended : before;
    }

private:
    const Nccl& nccl_;
    ncclResult_t result_ = ncclSuccess;
    bool open_ = true;
};

/// The operations, for one rank and stream.
class Enqueuing {
public:
    Enqueuing(const NcclGroup& nccl_group, cudaStream_t stream, Scratch& scratch)
        : cuda_(Libraries::get().cuda),
          nccl_(Libraries::get().nccl),
          group_(nccl_group),
          stream_(stream),
          scratch_(scratch) {}

    ncclResult_t one(const Call& call) const {
        if (call.operation == Operation::barrier) return barrier();
        if (call.in_bytes() == 0 && call.out_bytes() == 0) return ncclSuccess;
        if (!group_.comm) return alone(call);
        const auto in_bytes = call.in_bytes();
        const auto out_bytes = call.out_bytes();
        const auto is_root = call.argument == group_.group_rank;
        switch (call.operation) {
            case Operation::all_reduce:
                return nccl_.all_reduce(call.in, call.out, call.in_count, type(call), by(call), group_.comm,
                                        stream_);
            case Operation::reduce:
                return nccl_.reduce(call.in, is_root ? call.out : nullptr, call.in_count, type(call),
                                    by(call), call.argument, group_.comm, stream_);
            case Operation::reduce_scatter:
                return nccl_.reduce_scatter(call.in, call.out, call.out_count, type(call), by(call),
                                            group_.comm, stream_);
            case Operation::broadcast:
                return nccl_.broadcast(call.in, call.out, in_bytes, bytes_type, call.argument, group_.comm,
                                       stream_);
            case Operation::all_gather:
                return nccl_.all_gather(call.in, call.out, in_bytes, bytes_type, group_.comm, stream_);
            case Operation::gather:
                return nccl_.gather(call.in, is_root ? call.out : call_in(call), in_bytes, bytes_type,
                                    call.argument, group_.comm, stream_);
            case Operation::scatter:
                return nccl_.scatter(is_root ? call.in : call.out, call.out, out_bytes, bytes_type,
                                     call.argument, group_.comm, stream_);
            case Operation::all_to_all:
                return all_to_all(call);
            case Operation::all_gather_v:
                return all_gather_v(call);
            case Operation::all_to_all_v:
            case Operation::gather_v:
            case Operation::scatter_v:
                return parts(call);
            case Operation::scan:
            case Operation::exclusive_scan:
                return scan(call);
            case Operation::shift:
            case Operation::send_recv:
            case Operation::send:
            case Operation::recv:
                return exchange(call, peers_of(call, group_.group_rank, group_.size));
            default:  // a monitored barrier runs on the host
                return ncclInvalidUsage;
        }
    }

private:
    static ncclDataType_t type(const Call& call) { return *nccl_type(call.dtype); }
    static ncclRedOp_t by(const Call& call) { return *nccl_reduction(call.reduction, call.dtype); }
    static std::size_t bytes_of(const Call& call, std::size_t count) {
        return count * call.unit * size_of(call.dtype);
    }

    /// Where NCCL wants a buffer that it does not use: none that is null passes NCCL_CHECK_POINTERS.
    static void* call_in(const Call& call) { return const_cast<void*>(call.in); }

    void copy(const void* from, void* to, std::size_t bytes) const {
        if (from != to && bytes > 0)
            cuda_.check(cuda_.memcpy_async(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
                        "cudaMemcpyAsync");
    }
    ncclResult_t barrier() const {
        if (!group_.comm) return ncclSuccess;
        return nccl_.all_reduce(group_.barrier, group_.barrier, 1, ncclInt32, ncclSum, group_.comm, stream_);
    }
    ncclResult_t alone(const Call& call) const {
        // With open edges this rank has no sender, unless the distance is 0.
        if (call.operation == Operation::shift && call.edge == Edge::open && call.argument != 0)
            return ncclSuccess;
        if (call.operation == Operation::exclusive_scan)
            cuda_.check(cuda_.memset_async(call.out, 0, call.out_bytes(), stream_), "cudaMemsetAsync");
        else
            copy(call.in, call.out, call.out_bytes());
        return ncclSuccess;
    }
    ncclResult_t all_to_all(const Call& call) const {
        const auto part = call.in_bytes() / static_cast<std::size_t>(group_.size);
        if (call.in != call.out)
            return nccl_.all_to_all(call.in, call.out, part, bytes_type, group_.comm, stream_);
        auto* held = scratch_.take(call.in_bytes(), stream_);
        copy(call.in, held, call.in_bytes());
        return nccl_.all_to_all(held, call.out, part, bytes_type, group_.comm, stream_);
    }
    /// A broadcast from each rank.
    ncclResult_t all_gather_v(const Call& call) const {
        auto group = Group(nccl_);
        auto* to = static_cast<char*>(call.out);
        for (int from = 0; from < group_.size; ++from) {
            const auto bytes = bytes_of(call, call.out_counts[from]);
            if (bytes > 0)
                group.add(nccl_.broadcast(from == group_.group_rank ? call.in : to, to, bytes, bytes_type,
                                          from, group_.comm, stream_));
            to += bytes;
        }
        return group.end();
    }
    /// An operation with counts as a message each way a member.
    ncclResult_t parts(const Call& call) const {
        auto group = Group(nccl_);
        const auto width = size_of(call.dtype);
        const auto* from = static_cast<const char*>(call.in);
        auto* to = static_cast<char*>(call.out);
        for (int other = 0; other < group_.size; ++other) {
            const auto out = given_to(call, other) * width;
            const auto in = expected_from(call, other) * width;
            if (out > 0) group.add(nccl_.send(from, out, bytes_type, other, group_.comm, stream_));
            if (in > 0) group.add(nccl_.recv(to, in, bytes_type, other, group_.comm, stream_));
            if (call.operation != Operation::gather_v) from += out;  // which has one part
            to += in;
        }
        return group.end();
    }
    /// A reduce_scatter, in which this rank contributes zeros to the ranks before it, and its input to itself
    /// and those after it; zeros to itself as well in an exclusive scan.
    ncclResult_t scan(const Call& call) const {
        const auto bytes = call.in_bytes();
        auto* parts = scratch_.take(bytes * static_cast<std::size_t>(group_.size), stream_);
        const auto first = group_.group_rank + (call.operation == Operation::scan ? 0 : 1);
        const auto before = bytes * static_cast<std::size_t>(first);
        if (before > 0) cuda_.check(cuda_.memset_async(parts, 0, before, stream_), "cudaMemsetAsync");
        for (int i = first; i < group_.size; ++i)
            copy(call.in, parts + bytes * static_cast<std::size_t>(i), bytes);
        return nccl_.reduce_scatter(parts, call.out, call.in_count, type(call), ncclSum, group_.comm,
                                    stream_);
    }
    ncclResult_t exchange(const Call& call, const Peers& peers) const {
        const auto [to, from] = peers;
        if (to == group_.group_rank && from == group_.group_rank) {
            copy(call.in, call.out, call.in_bytes());
            return ncclSuccess;
        }
        const auto* in = call.in;
        if (call.in == call.out && to >= 0 && from >= 0) {
            auto* held = scratch_.take(call.in_bytes(), stream_);
            copy(call.in, held, call.in_bytes());
            in = held;
        }
        auto group = Group(nccl_);
        if (to >= 0 && call.in_bytes() > 0)
            group.add(nccl_.send(in, call.in_bytes(), bytes_type, to, group_.comm, stream_));
        if (from >= 0 && call.out_bytes() > 0)
            group.add(nccl_.recv(call.out, call.out_bytes(), bytes_type, from, group_.comm, stream_));
        return group.end();
    }

    const Cuda& cuda_;
    const Nccl& nccl_;
    const NcclGroup& group_;
    const cudaStream_t stream_;
    Scratch& scratch_;
};

}  // namespace

Scratch::~Scratch() {
    if (data_) Libraries::get().cuda.free_async(data_, stream_);
}

char* Scratch::take(std::size_t bytes, cudaStream_t stream) {
    const auto& cuda = Libraries::get().cuda;
    cuda.check(cuda.malloc_async(&data_, bytes, stream), "cudaMallocAsync");
    stream_ = stream;
    return static_cast<char*>(data_);
}

ncclResult_t enqueue(std::span<const Call> calls, const NcclGroup& nccl_group, cudaStream_t stream,
                     Scratch& scratch) {
    const auto enqueuing = Enqueuing(nccl_group, stream, scratch);
    if (calls.size() == 1) return enqueuing.one(calls.front());
    auto group = Group(Libraries::get().nccl);
    for (const auto& call : calls) group.add(enqueuing.one(call));
    return group.end();
}

UsedBuffers used_buffers(const Call& call, int group_rank) {
    const auto is_one = call.in == call.out;  // which is used either way
    return {call.in_count > 0 && (is_one || reads(call, group_rank)) ? call.in : nullptr,
            call.out_count > 0 && (is_one || writes(call, group_rank)) ? call.out : nullptr};
}

}  // namespace rankmesh::detail
