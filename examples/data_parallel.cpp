// SPDX-License-Identifier: Apache-2.0
// Data parallel training: every rank has samples of its own, and the gradients of all are averaged.
#include <array>
#include <cstdio>
#include <vector>

#include <rankmesh/engine/run.hpp>

using Gradients = std::array<std::vector<float>, 2>;  // of one layer's weight and bias

/// The mean over some samples: your backward pass, here of small whole numbers, which add up exactly.
Gradients backward(int layer, int first, int count) {
    auto gradients = Gradients{std::vector<float>(1000), std::vector<float>(10)};
    for (auto& tensor : gradients)
        for (int i = layer; auto& gradient : tensor) {
            for (int s = first; s < first + count; ++s) gradient += static_cast<float>(i * s % 8);
            gradient /= static_cast<float>(count);
            ++i;
        }
    return gradients;
}

int train(rankmesh::World& world) {
    auto dp = world.join({{"dp", rankmesh::rest}}).on("dp");

    Gradients layers[4];
    rankmesh::Pending averages[4];
    for (auto layer : {3, 2, 1, 0}) {  // the gradients of one travel while those of the next are computed
        layers[layer] = backward(layer, 16 * dp.rank(), 16);
        averages[layer] = dp.start().all_reduce(rankmesh::Buffers(layers[layer]), rankmesh::mean);
    }
    for (auto& average : averages) average.wait();

    auto right = true;
    for (auto layer : {0, 1, 2, 3}) right = right && layers[layer] == backward(layer, 0, 16 * dp.size());
    if (!right || dp.rank() == 0) std::puts(right ? "the mean is over all samples" : "the mean is wrong");
    return right ? 0 : 1;
}

int main(int argc, char** argv) { return rankmesh::run(argc, argv, train, {.threads = 4}); }
