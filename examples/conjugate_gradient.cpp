// SPDX-License-Identifier: Apache-2.0
// Conjugate gradients whose every step has the same bits, however many ranks share the rows.
// examples/plain_mpi/conjugate_gradient.cpp is the same program on MPI alone.
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include <rankmesh/engine/location.hpp>
#include <rankmesh/engine/run.hpp>

using rankmesh::Communicator;
using rankmesh::Edge;
using Vector = std::vector<double>;  // the rows of this rank

constexpr auto rows = 1000;

/// The product of this rank's rows of the matrix (-1, 2, -1) and `x`, with one element of each neighbour.
Vector product(Communicator& on, const Vector& x) {
    auto left = 0.0;
    auto right = 0.0;
    on.shift(x.back(), left, 1, Edge::open);
    on.shift(x.front(), right, -1, Edge::open);
    auto y = Vector(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        y[i] = 2 * x[i] - (i > 0 ? x[i - 1] : left) - (i + 1 < x.size() ? x[i + 1] : right);
    return y;
}

/// The scalar product of the parts of all ranks.
using Dot = double (*)(Communicator& on, const Vector& x, const Vector& y);
double dot(Communicator& on, const Vector& x, const Vector& y) { return on.reproducible_dot(x, y); }

/// Solves A x = b, and returns the square of what is left of the residual after 50 steps.
double solve(Communicator& on, const Vector& b, Vector& x, Dot dot) {
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

int program(rankmesh::World& world) {
    auto here = world.join({{"dp", rankmesh::rest}, {"one", 1}});
    auto dp = here.on("dp");
    auto one = here.on("one");

    auto own = rows / dp.size() + (dp.rank() < rows % dp.size() ? 1 : 0);
    auto begin = own;
    dp.exclusive_scan(begin);  // the rows of the ranks below
    auto x = Vector(static_cast<std::size_t>(own));
    const auto rest = solve(dp, right_side(begin, begin + own), x, dot);

    auto largest = rankmesh::Located{0.0, 0};
    for (int i = 0; i < own; ++i)
        if (const auto value = x[static_cast<std::size_t>(i)]; value > largest.value)
            largest = {value, begin + i};
    dp.all_reduce(largest, rankmesh::max_location);

    auto alone = Vector(rows);
    const auto same = solve(one, right_side(0, rows), alone, dot) == rest &&
                      alone[static_cast<std::size_t>(largest.index)] == largest.value;
    if (!same || dp.rank() == 0)
        std::printf("the residual %a is %s\n", rest, same ? "the same on one rank" : "another on one rank");
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char** argv) { return rankmesh::run(argc, argv, program, {.threads = 3}); }
