// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include "engine/mpi/limits.hpp"

namespace rankmesh::detail {

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
    LargeType(const LargeType&) = delete;
    LargeType& operator=(const LargeType&) = delete;
    operator MPI_Datatype() const { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace rankmesh::detail
