// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <rankmesh/engine/dtype.hpp>
#include <rankmesh/engine/reduction.hpp>

namespace rankmesh::detail {

/// MPI's type of the same bytes; sixteen-bit floats, which MPI-3.1 lacks, travel as sixteen-bit integers.
MPI_Datatype type_of(DType dtype);

/// MPI's operation, or one of our own for sixteen-bit floats. A mean is a sum that is divided afterwards.
MPI_Op op_of(Reduction reduction, DType dtype);

/// Frees our own operations: before MPI is finalised.
void free_ops();

}  // namespace rankmesh::detail
