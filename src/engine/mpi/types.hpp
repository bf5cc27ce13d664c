// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <iterator>

#include <rankmesh/engine/detail/call.hpp>
#include <rankmesh/engine/dtype.hpp>
#include <rankmesh/engine/reduction.hpp>

#include "engine/combine.hpp"

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
    switch (reduction) {
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
        default:  // sum and mean
            return MPI_SUM;
    }
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
    switch (operation) {
        case Operation::all_to_all_v:
        case Operation::gather_v:
        case Operation::scatter_v:
        case Operation::shift:
        case Operation::monitored_barrier:
            return false;
        default:
            return !is_point_to_point(operation);
    }
}

}  // namespace rankmesh::detail
