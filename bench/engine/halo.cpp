// SPDX-License-Identifier: Apache-2.0
// The heat equation in 2-D and 3-D: halo beside what an MPI programmer writes, MPI_Cart with a subarray
// datatype for each face, and beside faces packed by hand. The fields must be equal bit by bit. Start with
// mpirun on any number of ranks; rank 0 reports.
#include <algorithm>
#include <array>
#include <cstdio>
#include <initializer_list>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/halo.hpp>
#include <rankmesh/engine/mpi.hpp>

#include "../../examples/plain_mpi/halo.hpp"
#include "measure.hpp"

namespace {

using rankmesh::bench::Way;

/// A block of D dimensions, each of n cells with the ghost cells at both ends.
template <std::size_t D>
struct Block {
    explicit Block(int cells)
        : n(static_cast<std::size_t>(cells) + 2), now(D == 2 ? n * n : n * n * n), next(now) {}

    void begin(int rank) {
        for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<double>(i * 7919 % 1009) + rank;
    }
    void step() {
        const auto planes = D == 2 ? std::size_t{1} : n - 2;
        for (std::size_t i = 0; i < planes; ++i)
            for (std::size_t j = 1; j < n - 1; ++j) row((D == 2 ? 0 : (i + 1) * n * n) + j * n + 1);
        std::swap(now, next);
    }

    std::size_t n;
    std::vector<double> now, next;

private:
    void row(std::size_t first) {
        const auto* in = now.data() + first;
        auto* out = next.data() + first;
        const auto along_x = n * n;
        for (std::size_t k = 0; k < n - 2; ++k) {
            auto around = in[k - n] + in[k + n] + in[k - 1] + in[k + 1] - 4 * in[k];
            if constexpr (D == 3) around += in[k - along_x] + in[k + along_x] - 2 * in[k];
            out[k] = in[k] + 0.1 * around;
        }
    }
};

/// The program without rankmesh that copies faces by hand.
template <std::size_t D>
class ByHand {
public:
    ByHand(MPI_Comm cart, std::size_t n) : cart_(cart), n_(static_cast<std::ptrdiff_t>(n)) {
        for (std::size_t d = 0; d < D; ++d)
            MPI_Cart_shift(cart, static_cast<int>(d), 1, &neighbors_[2 * d], &neighbors_[2 * d + 1]);
        for (auto& each : packed_) each.resize((n - 2) * (D == 2 ? 1 : n - 2));
    }
    void exchange(double* field) {
        MPI_Request requests[4 * D];
        const auto count = static_cast<int>(packed_[0].size());
        for (std::size_t d = 0; d < D; ++d) {
            auto* packed = &packed_[4 * d];
            auto* request = &requests[4 * d];
            const auto lower = neighbors_[2 * d];
            const auto upper = neighbors_[2 * d + 1];
            const auto tag = static_cast<int>(2 * d);
            copy<true>(field, d, 1, packed[0]);
            copy<true>(field, d, n_ - 2, packed[1]);
            MPI_Irecv(packed[2].data(), count, MPI_DOUBLE, upper, tag, cart_, &request[0]);
            MPI_Irecv(packed[3].data(), count, MPI_DOUBLE, lower, tag + 1, cart_, &request[1]);
            MPI_Isend(packed[0].data(), count, MPI_DOUBLE, lower, tag, cart_, &request[2]);
            MPI_Isend(packed[1].data(), count, MPI_DOUBLE, upper, tag + 1, cart_, &request[3]);
        }
        MPI_Waitall(4 * D, requests, MPI_STATUSES_IGNORE);
        for (std::size_t d = 0; d < D; ++d) {
            copy<false>(field, d, n_ - 1, packed_[4 * d + 2]);
            copy<false>(field, d, 0, packed_[4 * d + 3]);
        }
    }

private:
    template <bool packs>
    void copy(double* field, std::size_t dimension, std::ptrdiff_t layer, std::vector<double>& packed) const {
        const std::ptrdiff_t strides[] = {n_ * n_, n_, 1};
        const auto* own = strides + 3 - D;
        auto* at = packed.data();
        auto* face = field + layer * own[dimension];
        const auto outer = D == 2 ? 0 : own[dimension == 0 ? 1 : 0];
        const auto inner = own[dimension == D - 1 ? D - 2 : D - 1];
        for (std::ptrdiff_t i = D == 2 ? n_ - 2 : 1; i < n_ - 1; ++i)
            for (std::ptrdiff_t k = 1; k < n_ - 1; ++k, ++at)
                if constexpr (packs)
                    *at = face[i * outer + k * inner];
                else
                    face[i * outer + k * inner] = *at;
    }

    MPI_Comm cart_;
    std::ptrdiff_t n_;
    int neighbors_[2 * D];
    std::array<std::vector<double>, 4 * D> packed_;
};

void halo(const rankmesh::Member& me, Block<2>& block) {
    rankmesh::halo(me, rankmesh::strided(block.now.data(), {block.n, block.n}), {"x", "y"});
}
void halo(const rankmesh::Member& me, Block<3>& block) {
    rankmesh::halo(me, rankmesh::strided(block.now.data(), {block.n, block.n, block.n}), {"x", "y", "z"});
}

/// Ours, by datatypes, by hand, and by datatypes again, each with a field of its own. Returns the number of
/// fields that differ from ours.
template <std::size_t D>
int compare(const rankmesh::Member& me, MPI_Comm cart, int cells, bool with_steps, int rounds) {
    auto blocks = std::vector<Block<D>>(4, Block<D>(cells));
    for (auto& block : blocks) block.begin(me.rank());
    auto sizes = std::array<int, D>();
    sizes.fill(cells + 2);
    auto datatypes = plain::Halo<D>(cart, sizes);
    auto by_hand = ByHand<D>(cart, blocks[0].n);
    const auto steps = std::max(1, (1 << 20) / static_cast<int>(blocks[0].now.size()));
    const auto way = [&](Block<D>& block, auto exchange) {
        return Way{[&block, exchange, steps, with_steps] {
            for (int i = 0; i < steps; ++i) {
                exchange(block);
                if (with_steps) block.step();
            }
        }};
    };
    const auto by_datatypes = [&](Block<D>& block) { datatypes.exchange(block.now.data()); };
    const auto times = rankmesh::bench::times_of(
        {way(blocks[0], [&](Block<D>& block) { halo(me, block); }), way(blocks[1], by_datatypes),
         way(blocks[2], [&](Block<D>& block) { by_hand.exchange(block.now.data()); }),
         way(blocks[3], by_datatypes)},
        rounds);
    auto differs = 0;
    for (std::size_t i = 1; i < blocks.size(); ++i) differs += blocks[0].now == blocks[i].now ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_SUM, cart);
    if (me.rank() != 0) return differs;
    const auto name = rankmesh::detail::cat("halo: ", D, "-D", with_steps ? " with the step" : "", " on ",
                                            me.size(), "/", cells);
    rankmesh::bench::keep_samples(name, {times[0], times[1], times[3]});
    auto ms = std::vector<double>{};  // the fastest round of each: other programs only add time
    for (const auto& each : times) ms.push_back(*std::ranges::min_element(each) * 1e-6);
    std::printf("%-32s %9.4f ms   %6.3f of datatypes   %6.3f of by hand   (datatypes again %6.3f)%s\n",
                name.c_str(), ms[0] / steps, ms[0] / ms[1], ms[0] / ms[2], ms[3] / ms[1],
                differs == 0 ? "" : "   THE FIELDS DIFFER");
    return differs;
}

/// All sizes of blocks in D dimensions, which a mesh of axes x, y and z splits.
template <std::size_t D>
int compare_all(rankmesh::World& world, std::initializer_list<int> sizes, int rounds) {
    int mesh[3] = {0, 0, D == 2 ? 1 : 0};
    MPI_Dims_create(world.size(), 3, mesh);
    auto me = world.join(rankmesh::Mesh{{"x", mesh[0]}, {"y", mesh[1]}, {"z", mesh[2]}});
    const int periods[] = {1, 1, 1};
    auto cart = MPI_COMM_NULL;
    MPI_Cart_create(MPI_COMM_WORLD, static_cast<int>(D), mesh, periods, 0, &cart);
    auto differs = 0;
    for (auto cells : sizes)
        for (auto with_steps : {false, true}) differs += compare<D>(me, cart, cells, with_steps, rounds);
    MPI_Comm_free(&cart);
    return differs;
}

}  // namespace

int main(int argc, char** argv) {
    auto world = rankmesh::mpi::World(argc, argv);
    const auto rounds = rankmesh::bench::rounds_of(101);
    if (world.rank() == 0) std::puts("ratios below 1: halo is faster");
    const auto differs =
        compare_all<2>(world, {64, 256, 1024}, rounds) + compare_all<3>(world, {8, 32, 64, 128}, rounds);
    return differs == 0 ? 0 : 1;
}
