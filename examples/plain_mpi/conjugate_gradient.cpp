// SPDX-License-Identifier: Apache-2.0
// conjugate_gradient.cpp of the folder above on MPI alone. Its sums depend on the number of ranks, so it
// cannot compare bits with those of one rank.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

namespace plain {

using Vector = std::vector<double>;  // the rows of this rank

constexpr auto rows = 1000;

/// The product of this rank's rows of the matrix (-1, 2, -1) and `x`, with one element of each neighbour.
Vector product(MPI_Comm on, const Vector& x) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(on, &rank);
    MPI_Comm_size(on, &size);
    const auto lower = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const auto upper = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    auto left = 0.0;
    auto right = 0.0;
    MPI_Sendrecv(&x.back(), 1, MPI_DOUBLE, upper, 0, &left, 1, MPI_DOUBLE, lower, 0, on, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&x.front(), 1, MPI_DOUBLE, lower, 1, &right, 1, MPI_DOUBLE, upper, 1, on, MPI_STATUS_IGNORE);
    auto y = Vector(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        y[i] = 2 * x[i] - (i > 0 ? x[i - 1] : left) - (i + 1 < x.size() ? x[i + 1] : right);
    return y;
}

/// The scalar product of the parts of all ranks.
double dot(MPI_Comm on, const Vector& x, const Vector& y) {
    auto sum = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, on);
    return sum;
}

/// Solves A x = b, and returns the square of what is left of the residual after 50 steps.
double solve(MPI_Comm on, const Vector& b, Vector& x) {
    auto r = b;
    auto p = r;
    auto rr = dot(on, r, r);
    for (int step = 0; step < 50; ++step) {
        const auto ap = product(on, p);
        const auto alpha = rr / dot(on, p, ap);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += alpha * p[i];
        for (std::size_t i = 0; i < x.size(); ++i) r[i] -= alpha * ap[i];
        const auto before = std::exchange(rr, dot(on, r, r));
        for (std::size_t i = 0; i < x.size(); ++i) p[i] = r[i] + rr / before * p[i];
    }
    return rr;
}

/// The right side: rows begin..end of it.
Vector right_side(int begin, int end) {
    auto b = Vector{};
    for (int i = begin; i < end; ++i) b.push_back(1.0 / (1 + i % 37));
    return b;
}

int solve_and_check() {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto own = rows / size + (rank < rows % size ? 1 : 0);
    auto begin = 0;  // the rows of the ranks below
    MPI_Exscan(&own, &begin, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    auto x = Vector(static_cast<std::size_t>(own));
    const auto rest = solve(MPI_COMM_WORLD, right_side(begin, begin + own), x);

    struct Located {
        double value;
        int index;
    } largest = {0.0, 0};
    for (int i = 0; i < own; ++i)
        if (const auto value = x[static_cast<std::size_t>(i)]; value > largest.value)
            largest = {value, begin + i};
    MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);

    auto alone = Vector(rows);
    const auto rest_alone = solve(MPI_COMM_SELF, right_side(0, rows), alone);
    const auto value = alone[static_cast<std::size_t>(largest.index)];
    const auto same =
        std::abs(rest_alone - rest) < 1e-9 * rest && std::abs(value - largest.value) < 1e-9 * value;
    if (!same || rank == 0)
        std::printf("the residual %a is %s\n", rest, same ? "near that of one rank" : "another on one rank");
    return same ? 0 : 1;
}

}  // namespace plain

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const auto code = plain::solve_and_check();
    MPI_Finalize();
    return code;
}
