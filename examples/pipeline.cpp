// SPDX-License-Identifier: Apache-2.0
// A 1F1B pipeline: once it is full, a stage computes one micro-batch forward and one backward in turn.
#include <cstdio>
#include <deque>
#include <valarray>

#include <rankmesh/engine/run.hpp>

int program(rankmesh::World& world) {
    auto pp = world.join({{"pp", rankmesh::rest}}).on("pp");
    const auto batches = 6, stage = pp.rank(), later = pp.size() - 1 - stage;  // stages after this one
    auto weight = 1.0 + stage % 3, product = weight, slope = 0.0;  // y = weight * x, loss = sum(y * y) / 2
    pp.all_reduce(product, rankmesh::prod);
    auto inputs = std::deque<std::valarray<double>>();  // kept until their gradients come back
    auto output = std::valarray<double>(4), gradient = output;

    for (int forward = 0, backward = -later; backward <= batches; ++forward, ++backward) {
        const auto goes = forward < batches, returns = 0 <= backward && backward < batches;
        if (goes) inputs.emplace_back(1.0 + forward, 4);  // for the first stage; others receive theirs
        pp.batch([&] {
            if (stage > 0 && goes) pp.recv(inputs.back(), stage - 1);
            if (stage > 0 && backward > 0) pp.send(gradient, stage - 1);
        });
        if (goes) output = weight * inputs.back();
        pp.batch([&] {
            if (later > 0 && goes) pp.send(output, stage + 1);
            if (later > 0 && returns) pp.recv(gradient, stage + 1);
        });
        if (!returns) continue;
        if (later == 0) gradient = output;
        slope += (gradient * inputs.front()).sum();  // of the loss, by this weight
        gradient *= weight;
        inputs.pop_front();
    }
    const auto right = slope == 4 * (1 + 4 + 9 + 16 + 25 + 36) * product * product / weight;
    if (!right || stage == 0) std::puts(right ? "the gradients are right" : "a gradient is wrong");
    return right ? 0 : 1;
}

int main(int argc, char** argv) { return rankmesh::run(argc, argv, program, {.threads = 4}); }
