// SPDX-License-Identifier: Apache-2.0
// Matrices of Eigen as buffers: what a program specialises once, and what it then does.
#include <Eigen/Core>
#include <array>
#include <concepts>
#include <cstdio>
#include <rankmesh/engine/threads.hpp>
#include <vector>

/// Every matrix, vector, array, map and block of Eigen that lies in memory.
template <class M>
concept InMemory = std::derived_from<M, Eigen::DenseBase<M>> &&
                   (Eigen::internal::traits<M>::Flags & Eigen::DirectAccessBit) != 0;

template <InMemory Matrix>
struct rankmesh::buffer_traits<Matrix> {
    // A map or a block shows what is another's.
    static constexpr bool is_view = std::derived_from<Matrix, Eigen::MapBase<Matrix>>;
    static auto* data(auto& matrix) { return matrix.data(); }
    static std::size_t size(const Matrix& matrix) { return static_cast<std::size_t>(matrix.size()); }
    // Blocks of a larger matrix: columns, and the elements of a column.
    static std::array<Eigen::Index, 2> extents(const Matrix& matrix) {
        return {matrix.outerSize(), matrix.innerSize()};
    }
    static std::array<Eigen::Index, 2> strides(const Matrix& matrix) {
        return {matrix.outerStride(), matrix.innerStride()};
    }
};

int main() {
    auto wrong = 0;
    rankmesh::threads::run(2, [&](rankmesh::World& world) {
        auto on = world.join({{"dp", rankmesh::rest}}).on("dp");
        const auto check = [&](bool right) {
            auto misses = right ? 0 : 1;
            on.all_reduce(misses);
            if (world.rank() == 0) wrong += misses;
        };

        Eigen::MatrixXf weights = Eigen::MatrixXf::Constant(3, 4, 1.0f + static_cast<float>(world.rank()));
        on.all_reduce(weights, rankmesh::mean);
        check(weights.isConstant(1.5f));

        const Eigen::VectorXd mine = Eigen::VectorXd::LinSpaced(4, 1, 4);
        auto both = Eigen::VectorXd(8);
        on.all_gather(mine, both);
        check(both.head(4) == mine && both.tail(4) == mine);

        Eigen::Matrix2cf phases = Eigen::Matrix2cf::Constant({1, -2});
        on.all_reduce(phases);
        check(phases.isConstant({2, -4}));

        // A map, and columns that lie one after the other, are written where they lie.
        auto memory = std::vector<int>(6, world.rank());
        on.broadcast(Eigen::Map<Eigen::MatrixXi>(memory.data(), 2, 3), 1);
        check(memory == std::vector<int>(6, 1));
        weights.setConstant(static_cast<float>(world.rank()));
        on.reduce_scatter(Eigen::MatrixXf(Eigen::MatrixXf::Constant(3, 4, 2)), weights.leftCols(2));
        check(weights.leftCols(2).isConstant(4) && weights(0, 3) == static_cast<float>(world.rank()));

        weights.setConstant(static_cast<float>(world.rank() + 1));
        on.all_reduce(weights.topRows(2));
        check(weights.topRows(2).isConstant(3) && weights(2, 0) == static_cast<float>(world.rank() + 1));
        Eigen::VectorXf row(4);
        on.shift(weights.row(2), row, 1);
        check(row.isConstant(static_cast<float>(2 - world.rank())));
    });
    std::printf("Eigen: %d wrong\n", wrong);
    return wrong;
}
