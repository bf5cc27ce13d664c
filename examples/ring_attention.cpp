// SPDX-License-Identifier: Apache-2.0
// Ring attention: keys and values go around "cp"; the next block travels while this one is attended to.
#include <cmath>
#include <cstdio>
#include <vector>

#include <rankmesh/engine/run.hpp>

struct Token {
    double key, value;
};

/// A query with its softmax over the tokens seen so far: their mean value, and the logarithm of the divisor.
struct Query {
    double query, mean = 0, log_sum = -INFINITY;
    void see(Token token) {
        const auto share = 1 / (1 + std::exp(log_sum - query * token.key));
        mean += share * (token.value - mean);
        log_sum = query * token.key - std::log(share);
    }
};

int program(rankmesh::World& world) {
    auto cp = world.join({{"cp", rankmesh::rest}}).on("cp");
    auto all = std::vector<Token>();  // the whole sequence, of which each rank has eight
    for (int t = 0; t < 8 * cp.size(); ++t) all.push_back({std::sin(t), std::cos(t)});
    auto block = std::vector(all.begin() + 8 * cp.rank(), all.begin() + 8 * cp.rank() + 8), next = block;
    auto ring = Query{1.0 / (1 + cp.rank())}, whole = ring;
    for (int step = 1; step <= cp.size(); ++step, block.swap(next)) {
        auto arrival = step < cp.size() ? cp.start().shift(block, next) : rankmesh::Pending();
        for (auto token : block) ring.see(token);
        arrival.wait();
    }
    for (auto token : all) whole.see(token);
    const auto right = std::fabs(ring.mean - whole.mean) < 1e-12;
    if (!right || cp.rank() == 0) std::puts(right ? "all tokens were attended to" : "the mean is wrong");
    return right ? 0 : 1;
}

int main(int argc, char** argv) { return rankmesh::run(argc, argv, program, {.threads = 4}); }
