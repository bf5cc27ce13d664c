// SPDX-License-Identifier: Apache-2.0
// A halo on MPI alone: the neighbours of MPI_Cart_shift, and a datatype for each face.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>

namespace plain {

/// Exchanges the ghost cells of a row-major field, one layer on each side, along the axes of a Cartesian
/// communicator.
template <std::size_t D>
class Halo {
public:
    Halo(MPI_Comm cart, const std::array<int, D>& sizes) : cart_(cart) {
        for (std::size_t d = 0; d < D; ++d) {
            MPI_Cart_shift(cart, static_cast<int>(d), 1, &lower_[d], &upper_[d]);
            for (std::size_t face = 0; face < 4; ++face) {
                auto parts = sizes;
                auto first = std::array<int, D>();
                for (std::size_t i = 0; i < D; ++i) parts[i] -= 2, first[i] = 1;
                parts[d] = 1;
                first[d] = std::array{0, 1, sizes[d] - 2, sizes[d] - 1}[face];
                MPI_Type_create_subarray(static_cast<int>(D), sizes.data(), parts.data(), first.data(),
                                         MPI_ORDER_C, MPI_DOUBLE, &faces_[d][face]);
                MPI_Type_commit(&faces_[d][face]);
            }
        }
    }
    ~Halo() {
        for (auto& axis : faces_)
            for (auto& face : axis) MPI_Type_free(&face);
    }
    Halo(const Halo&) = delete;
    Halo& operator=(const Halo&) = delete;

    void exchange(double* field) {
        MPI_Request requests[4 * D];
        for (std::size_t d = 0; d < D; ++d) {
            const auto& face = faces_[d];
            const auto tag = static_cast<int>(2 * d);
            MPI_Irecv(field, 1, face[3], upper_[d], tag, cart_, &requests[4 * d]);
            MPI_Irecv(field, 1, face[0], lower_[d], tag + 1, cart_, &requests[4 * d + 1]);
            MPI_Isend(field, 1, face[1], lower_[d], tag, cart_, &requests[4 * d + 2]);
            MPI_Isend(field, 1, face[2], upper_[d], tag + 1, cart_, &requests[4 * d + 3]);
        }
        MPI_Waitall(4 * D, requests, MPI_STATUSES_IGNORE);
    }

private:
    MPI_Comm cart_;
    int lower_[D], upper_[D];
    MPI_Datatype faces_[D][4];  // ghost cells below, own cells below, own cells above, ghost cells above
};

}  // namespace plain
