// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/types.hpp"

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

std::optional<ncclDataType_t> nccl_type(DType dtype) {
    switch (dtype) {
        case DType::i8:
            return ncclInt8;
        case DType::i32:
            return ncclInt32;
        case DType::i64:
            return ncclInt64;
        case DType::u8:
        case DType::boolean:
            return ncclUint8;
        case DType::u32:
            return ncclUint32;
        case DType::u64:
            return ncclUint64;
        case DType::f16:
            return ncclFloat16;
        case DType::bf16:
            return ncclBfloat16;
        case DType::f32:
            return ncclFloat32;
        case DType::f64:
            return ncclFloat64;
        default:
            return std::nullopt;
    }
}

std::optional<ncclRedOp_t> nccl_reduction(Reduction reduction, DType dtype) {
    switch (reduction) {
        case Reduction::sum:
            return ncclSum;
        case Reduction::prod:
            return ncclProd;
        case Reduction::min:
            return ncclMin;
        case Reduction::max:
            return ncclMax;
        case Reduction::mean:
            return ncclAvg;
        case Reduction::logical_and:
            return dtype == DType::boolean ? std::optional(ncclMin) : std::nullopt;
        case Reduction::logical_or:
            return dtype == DType::boolean ? std::optional(ncclMax) : std::nullopt;
        default:
            return std::nullopt;
    }
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

}  // namespace rankmesh::detail
