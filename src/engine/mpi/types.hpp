// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>

#include <mpi.h>

#include <rankmesh/engine/detail/call.hpp>
#include <rankmesh/engine/dtype.hpp>
#include <rankmesh/engine/reduction.hpp>

#include "engine/combine.hpp"
#include "engine/mpi/limits.hpp"

namespace rankmesh::detail {

/// MPI's type of the same bytes; sixteen-bit floats, which MPI-3.1 lacks, are sent as sixteen-bit integers.
inline MPI_Datatype type_of(DType dtype) {
    static const MPI_Datatype types[] = {MPI_INT8_T,   MPI_INT16_T,  MPI_INT32_T,  MPI_INT64_T,
                                         MPI_UINT8_T,  MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T,
                                         MPI_C_BOOL,   MPI_BYTE,     MPI_UINT8_T,  MPI_UINT8_T,
                                         MPI_UINT16_T, MPI_UINT16_T, MPI_FLOAT,    MPI_DOUBLE};
    static_assert(std::size(types) == static_cast<std::size_t>(DType::f64) + 1);
    return types[static_cast<std::size_t>(dtype)];
}

/// An MPI_Op of rankmesh for sixteen-bit floats, created at its first use.
MPI_Op own_op(Reduction reduction, DType dtype);

/// MPI's operation, or that of rankmesh for sixteen-bit floats. A mean is a sum that is divided afterwards.
inline MPI_Op op_of(Reduction reduction, DType dtype) {
    if (is_own(reduction)) return MPI_OP_NULL;  // see function_op and gathered.cpp
    if (dtype == DType::f16 || dtype == DType::bf16) return own_op(reduction, dtype);
    static const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_SUM, MPI_BAND,
                                 MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
    static_assert(std::size(ops) == static_cast<std::size_t>(Reduction::reproducible_sum));
    return ops[static_cast<std::size_t>(reduction)];
}

/// The operation that applies the function of a datatype, of a function that commutes or does not.
MPI_Op function_op(bool commutes);
/// The datatype of one element of `bytes`, with the function that combines two; created at its first use.
/// MPI passes its own operations nothing else.
MPI_Datatype function_type(const Function& function, std::size_t bytes);

/// What MPI takes to reduce the elements of a call.
struct Reduced {
    MPI_Datatype type;
    MPI_Op op;
    std::size_t unit = 1;  // elements of the call's dtype in one of `type`
};
inline Reduced reduced_of(const Call& call) {
    if (call.function)
        return {function_type(*call.function, call.unit * size_of(call.dtype)),
                function_op(call.function->commutes), call.unit};
    return {type_of(call.dtype), op_of(call.reduction, call.dtype)};
}

/// Frees the operations and datatypes of rankmesh; called before MPI is finalised.
void free_ops();

/// True for a collective that is one of MPI's, which all ranks must start or all block in; the others are
/// messages.
inline bool is_collective_of_mpi(Operation operation) {
    using enum Operation;
    return !is_point_to_point(operation) && operation != all_to_all_v && operation != gather_v &&
           operation != scatter_v && operation != shift && operation != monitored_barrier;
}

/// An MPI type of `count` elements, however many: for moving data, not for reductions.
class LargeType {
public:
    LargeType(std::size_t count, MPI_Datatype element, std::size_t width) {
        const auto limit = static_cast<int>(mpi_count_limit);
        const auto whole = static_cast<int>(count / mpi_count_limit);
        const auto rest = static_cast<int>(count % mpi_count_limit);
        MPI_Datatype parts[2];
        MPI_Type_vector(whole, limit, limit, element, &parts[0]);
        MPI_Type_contiguous(rest, element, &parts[1]);
        const int lengths[2] = {1, 1};
        const MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(mpi_count_limit * width) * whole};
        MPI_Type_create_struct(2, lengths, offsets, parts, &type_);
        MPI_Type_commit(&type_);
        MPI_Type_free(&parts[0]);
        MPI_Type_free(&parts[1]);
    }
    ~LargeType() { MPI_Type_free(&type_); }  // operations in flight keep what they need
    LargeType& operator=(LargeType&&) = delete;
    operator MPI_Datatype() const { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace rankmesh::detail
