// SPDX-License-Identifier: Apache-2.0
// The heat equation in 3-D: halo beside what an MPI programmer writes, MPI_Cart with a subarray datatype for
// each face, and beside faces packed by hand. The fields must be equal bit by bit. Start with mpirun on any
// number of ranks; rank 0 reports.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include <rankmesh/engine/halo.hpp>
#include <rankmesh/engine/mpi.hpp>

#include "measure.hpp"

namespace {

using rankmesh::bench::Way;

/// A block of n x n x n cells with a layer of ghost cells.
struct Block {
    explicit Block(int cells) : n(cells + 2), now(size()), next(size()) {}
    std::size_t size() const { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n * n); }
    std::size_t at(int i, int j, int k) const { return static_cast<std::size_t>((i * n + j) * n + k); }

    void begin(int rank) {
        for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<double>(i * 7919 % 1009) + rank;
    }
    void step() {
        const auto along_x = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
        const auto along_y = static_cast<std::size_t>(n);
        for (int i = 1; i < n - 1; ++i)
            for (int j = 1; j < n - 1; ++j) {
                const auto* row = now.data() + at(i, j, 1);
                auto* out = next.data() + at(i, j, 1);
                for (std::size_t k = 0; k < static_cast<std::size_t>(n - 2); ++k)
                    out[k] = row[k] + 0.1 * (row[k - along_x] + row[k + along_x] + row[k - along_y] +
                                             row[k + along_y] + row[k - 1] + row[k + 1] - 6 * row[k]);
            }
        std::swap(now, next);
    }

    int n;
    std::vector<double> now, next;
};

/// The program without rankmesh: the neighbours of MPI_Cart_shift, and a datatype for each face.
class ByDatatypes {
public:
    ByDatatypes(MPI_Comm cart, int n) : cart_(cart) {
        for (int d = 0; d < 3; ++d) {
            MPI_Cart_shift(cart, d, 1, &neighbors_[2 * d], &neighbors_[2 * d + 1]);
            for (int face = 0; face < 4; ++face) {
                int sizes[] = {n, n, n};
                int parts[] = {n - 2, n - 2, n - 2};
                int first[] = {1, 1, 1};
                parts[d] = 1;
                first[d] = std::array{0, 1, n - 2, n - 1}[static_cast<std::size_t>(face)];
                auto& type = faces_[4 * d + face];
                MPI_Type_create_subarray(3, sizes, parts, first, MPI_ORDER_C, MPI_DOUBLE, &type);
                MPI_Type_commit(&type);
            }
        }
    }
    ~ByDatatypes() {
        for (auto& type : faces_) MPI_Type_free(&type);
    }
    ByDatatypes(const ByDatatypes&) = delete;
    ByDatatypes& operator=(const ByDatatypes&) = delete;

    void exchange(double* field) {
        MPI_Request requests[12];
        for (int d = 0; d < 3; ++d) {
            const auto lower = neighbors_[2 * d];
            const auto upper = neighbors_[2 * d + 1];
            const auto* face = &faces_[4 * d];
            MPI_Irecv(field, 1, face[3], upper, 2 * d, cart_, &requests[4 * d]);
            MPI_Irecv(field, 1, face[0], lower, 2 * d + 1, cart_, &requests[4 * d + 1]);
            MPI_Isend(field, 1, face[1], lower, 2 * d, cart_, &requests[4 * d + 2]);
            MPI_Isend(field, 1, face[2], upper, 2 * d + 1, cart_, &requests[4 * d + 3]);
        }
        MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
    }

private:
    MPI_Comm cart_;
    int neighbors_[6];
    MPI_Datatype faces_[12];
};

/// The same with faces that are copied by hand.
class ByHand {
public:
    ByHand(MPI_Comm cart, int n) : cart_(cart), n_(n) {
        for (int d = 0; d < 3; ++d) MPI_Cart_shift(cart, d, 1, &neighbors_[2 * d], &neighbors_[2 * d + 1]);
        for (auto& each : packed_) each.resize(static_cast<std::size_t>((n - 2) * (n - 2)));
    }
    void exchange(double* field) {
        MPI_Request requests[12];
        const auto count = (n_ - 2) * (n_ - 2);
        for (int d = 0; d < 3; ++d) {
            auto* packed = &packed_[static_cast<std::size_t>(4 * d)];
            copy<true>(field, d, 1, packed[0]);
            copy<true>(field, d, n_ - 2, packed[1]);
            MPI_Irecv(packed[2].data(), count, MPI_DOUBLE, neighbors_[2 * d + 1], 2 * d, cart_,
                      &requests[4 * d]);
            MPI_Irecv(packed[3].data(), count, MPI_DOUBLE, neighbors_[2 * d], 2 * d + 1, cart_,
                      &requests[4 * d + 1]);
            MPI_Isend(packed[0].data(), count, MPI_DOUBLE, neighbors_[2 * d], 2 * d, cart_,
                      &requests[4 * d + 2]);
            MPI_Isend(packed[1].data(), count, MPI_DOUBLE, neighbors_[2 * d + 1], 2 * d + 1, cart_,
                      &requests[4 * d + 3]);
        }
        MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
        for (int d = 0; d < 3; ++d) {
            auto* packed = &packed_[static_cast<std::size_t>(4 * d)];
            copy<false>(field, d, n_ - 1, packed[2]);
            copy<false>(field, d, 0, packed[3]);
        }
    }

private:
    template <bool packs>
    void copy(double* field, int dimension, int layer, std::vector<double>& packed) const {
        const std::ptrdiff_t strides[] = {std::ptrdiff_t{n_} * n_, n_, 1};
        const auto outer = strides[dimension == 0 ? 1 : 0];
        const auto inner = strides[dimension == 2 ? 1 : 2];
        auto* at = packed.data();
        auto* face = field + layer * strides[dimension];
        for (std::ptrdiff_t i = 1; i < n_ - 1; ++i)
            for (std::ptrdiff_t k = 1; k < n_ - 1; ++k, ++at)
                if constexpr (packs)
                    *at = face[i * outer + k * inner];
                else
                    face[i * outer + k * inner] = *at;
    }

    MPI_Comm cart_;
    int n_;
    int neighbors_[6];
    std::array<std::vector<double>, 12> packed_;
};

void halo(const rankmesh::Member& me, Block& block) {
    rankmesh::halo(me, rankmesh::strided(block.now.data(), {block.n, block.n, block.n}), {"x", "y", "z"});
}

/// Ours, by datatypes, by hand, and by datatypes again, each with a field of its own. Returns the number of
/// fields that differ from ours.
int compare(const rankmesh::Member& me, MPI_Comm cart, int cells, bool with_steps, int rounds) {
    auto blocks = std::vector<Block>(4, Block(cells));
    for (auto& block : blocks) block.begin(me.rank());
    auto datatypes = ByDatatypes(cart, cells + 2);
    auto by_hand = ByHand(cart, cells + 2);
    const auto steps = std::max(1, (1 << 20) / (cells * cells * cells));
    const auto way = [&](Block& block, auto exchange) {
        return Way{[&block, exchange, steps, with_steps] {
            for (int i = 0; i < steps; ++i) {
                exchange(block);
                if (with_steps) block.step();
            }
        }};
    };
    const auto by_datatypes = [&](Block& block) { datatypes.exchange(block.now.data()); };
    const auto times = rankmesh::bench::times_of(
        {way(blocks[0], [&](Block& block) { halo(me, block); }), way(blocks[1], by_datatypes),
         way(blocks[2], [&](Block& block) { by_hand.exchange(block.now.data()); }),
         way(blocks[3], by_datatypes)},
        rounds);
    auto differs = 0;
    for (std::size_t i = 1; i < blocks.size(); ++i)
        differs += std::memcmp(blocks[0].now.data(), blocks[i].now.data(), blocks[0].size() * 8) == 0 ? 0 : 1;
    me.on("x").all_reduce(differs), me.on("y").all_reduce(differs), me.on("z").all_reduce(differs);
    if (me.rank() != 0) return differs;
    auto ms = std::vector<double>{};  // the fastest round of each: other programs only add time
    for (const auto& each : times) ms.push_back(*std::ranges::min_element(each) * 1e-6);
    std::printf("%4d^3 %-10s %9.4f ms   %6.3f of datatypes   %6.3f of by hand   (datatypes again %6.3f)%s\n",
                cells, with_steps ? "step" : "halo alone", ms[0] / steps, ms[0] / ms[1], ms[0] / ms[2],
                ms[3] / ms[1], differs == 0 ? "" : "   THE FIELDS DIFFER");
    return differs;
}

}  // namespace

int main(int argc, char** argv) {
    auto world = rankmesh::mpi::World(argc, argv);
    int sizes[3] = {0, 0, 0};
    MPI_Dims_create(world.size(), 3, sizes);
    auto me = world.join(rankmesh::Mesh{{"x", sizes[0]}, {"y", sizes[1]}, {"z", sizes[2]}});
    const int periods[] = {1, 1, 1};
    auto cart = MPI_COMM_NULL;
    MPI_Cart_create(MPI_COMM_WORLD, 3, sizes, periods, 0, &cart);
    const auto rounds = rankmesh::bench::rounds_of(21);
    if (me.rank() == 0)
        std::printf("blocks on a mesh of %d x %d x %d, ratios below 1: halo is faster\n", sizes[0], sizes[1],
                    sizes[2]);
    auto differs = 0;
    for (auto cells : {8, 32, 64, 128})
        for (auto with_steps : {false, true}) differs += compare(me, cart, cells, with_steps, rounds);
    MPI_Comm_free(&cart);
    return differs == 0 ? 0 : 1;
}
