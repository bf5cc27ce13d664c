// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/types.hpp"

#include <array>
#include <mutex>

#include "engine/arithmetic.hpp"

namespace rankmesh::detail {
namespace {

template <Reduction R, DType D>
void reduce_halves(void* in, void* inout, int* count, MPI_Datatype*) {
    reduce_into<R>(D, in, inout, static_cast<std::size_t>(*count));
}

/// An MPI_Op of rankmesh, created at its first use; all of them commute.
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

MPI_Op own_op(Reduction reduction, DType dtype) {
    // Channels of a multithreaded world may call this at the same time.
    static std::mutex mutex;
    const auto lock = std::lock_guard(mutex);
    const auto which = reduction == Reduction::mean ? Reduction::sum : reduction;
    auto& own = own_ops()[dtype == DType::f16 ? 0 : 1][static_cast<std::size_t>(which)];
    if (own.op == MPI_OP_NULL) MPI_Op_create(own.function, 1, &own.op);
    return own.op;
}

void free_ops() {
    for (auto& row : own_ops())
        for (auto& own : row)
            if (own.op != MPI_OP_NULL) MPI_Op_free(&own.op);
}

}  // namespace rankmesh::detail
