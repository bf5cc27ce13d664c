// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <rankmesh/plan/answer.hpp>

int main() {
    const auto answer =
        rankmesh::plan::answer({.model = "llama3.1-8B",
                                .on = rankmesh::Cluster::parse("node:4(400GB/s,5us) gpu:8(450GB/s,2us)"),
                                .device = "H100-SXM-80GB",
                                .batch = 128,
                                .as = "megatron"});
    const auto* best = answer.planned();
    if (!best) return 1;  // no layout fits
    std::printf("%s: %.2f s\n", to_string(best->layout).c_str(), best->step.seconds);
    std::printf("%s\n", answer.settings->text.c_str());
}
