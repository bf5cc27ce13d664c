// SPDX-License-Identifier: Apache-2.0
// Megatron's MLP: `up` is split by columns and `down` by rows, so that one all_reduce is all that travels.
#include <algorithm>
#include <cstdio>
#include <span>
#include <vector>

#include <rankmesh/engine/world.hpp>

constexpr auto width = 8;

/// relu(x * up) * down; an inner feature has a column of `up` and a row of `down`, `width` numbers each.
std::vector<float> mlp(std::span<const float> x, std::span<const float> up, std::span<const float> down) {
    auto y = std::vector<float>(x.size());
    for (std::size_t token = 0; token < x.size(); token += width)
        for (std::size_t feature = 0; feature < up.size(); feature += width) {
            auto inner = 0.0f;
            for (std::size_t i = 0; i < width; ++i) inner += x[token + i] * up[feature + i];
            for (std::size_t i = 0; i < width; ++i) y[token + i] += std::max(inner, 0.0f) * down[feature + i];
        }
    return y;
}

int main(int argc, char** argv) {
    auto world = rankmesh::World::from_environment(argc, argv);
    auto tp = world.join({{"tp", rankmesh::rest}}).on("tp");

    const auto x = std::vector<float>{1, -2, 3, 0, 1, -1, 2, 1, 0, 2, -1, 1, -3, 1, 0, 2};  // two tokens
    auto up = std::vector<float>();
    for (int i = 0; i < 4 * width * tp.size(); ++i) up.push_back(static_cast<float>(i % 7 - 3));
    const auto down = std::vector(up.rbegin(), up.rend());
    const auto first = 4 * width * tp.rank(), last = first + 4 * width;  // this rank's inner features
    auto y = mlp(x, {up.begin() + first, up.begin() + last}, {down.begin() + first, down.begin() + last});
    tp.all_reduce(y);

    const auto right = y == mlp(x, up, down);
    if (!right || tp.rank() == 0) std::puts(right ? "the parts add up to the whole" : "the parts are wrong");
    return right ? 0 : 1;
}
