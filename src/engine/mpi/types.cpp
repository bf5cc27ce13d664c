// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/types.hpp"

#include <array>

#include "engine/arithmetic.hpp"

namespace rankmesh::detail {
namespace {

template <Reduction R, DType D>
void reduce_halves(void* in, void* inout, int* count, MPI_Datatype*) {
    reduce_into<R>(D, in, inout, static_cast<std::size_t>(*count));
}

/// An operation of our own, made when it is first asked for; all of them commute.
struct OwnOp {
    MPI_User_function* function;
    MPI_Op op = MPI_OP_NULL;
};

/// By type (f16, bf16), then by reduction (sum, prod, min, max).
std::array<std::array<OwnOp, 4>, 2>& own_ops() {
    static auto ops = [] {
        const auto row = []<DType D>(detail::Constant<D>) {
            return std::array<OwnOp, 4>{
                OwnOp{reduce_halves<Reduction::sum, D>}, OwnOp{reduce_halves<Reduction::prod, D>},
                OwnOp{reduce_halves<Reduction::min, D>}, OwnOp{reduce_halves<Reduction::max, D>}};
        };
        return std::array{row(detail::Constant<DType::f16>{}), row(detail::Constant<DType::bf16>{})};
    }();
    return ops;
}

}  // namespace

MPI_Datatype type_of(DType dtype) {
    switch (dtype) {
        case DType::i8:
            return MPI_INT8_T;
        case DType::i16:
            return MPI_INT16_T;
        case DType::i32:
            return MPI_INT32_T;
        case DType::i64:
            return MPI_INT64_T;
        case DType::u8:
            return MPI_UINT8_T;
        case DType::u16:
            return MPI_UINT16_T;
        case DType::u32:
            return MPI_UINT32_T;
        case DType::u64:
            return MPI_UINT64_T;
        case DType::boolean:
            return MPI_C_BOOL;
        case DType::byte:
            return MPI_BYTE;
        case DType::f8e4m3:
        case DType::f8e5m2:
            return MPI_UINT8_T;
        case DType::f16:
        case DType::bf16:
            return MPI_UINT16_T;
        case DType::f32:
            return MPI_FLOAT;
        case DType::f64:
            return MPI_DOUBLE;
    }
    return MPI_DATATYPE_NULL;
}

MPI_Op op_of(Reduction reduction, DType dtype) {
    if (dtype == DType::f16 || dtype == DType::bf16) {
        const auto which = reduction == Reduction::mean ? Reduction::sum : reduction;
        auto& own = own_ops()[dtype == DType::f16 ? 0 : 1][static_cast<std::size_t>(which)];
        if (own.op == MPI_OP_NULL) MPI_Op_create(own.function, 1, &own.op);
        return own.op;
    }
    switch (reduction) {
        case Reduction::sum:
        case Reduction::mean:
            return MPI_SUM;
        case Reduction::prod:
            return MPI_PROD;
        case Reduction::min:
            return MPI_MIN;
        case Reduction::max:
            return MPI_MAX;
        case Reduction::bit_and:
            return MPI_BAND;
        case Reduction::bit_or:
            return MPI_BOR;
        case Reduction::bit_xor:
            return MPI_BXOR;
        case Reduction::logical_and:
            return MPI_LAND;
        case Reduction::logical_or:
            return MPI_LOR;
        case Reduction::logical_xor:
            return MPI_LXOR;
    }
    return MPI_OP_NULL;
}

void free_ops() {
    for (auto& row : own_ops())
        for (auto& own : row)
            if (own.op != MPI_OP_NULL) MPI_Op_free(&own.op);
}

}  // namespace rankmesh::detail
