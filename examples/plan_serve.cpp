// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <rankmesh/plan/answer.hpp>

int main() try {
    const auto answer =
        rankmesh::plan::answer({.model = "llama3.1-70B",
                                .serve = true,
                                .on = rankmesh::Cluster::parse("node:2(400GB/s,5us) gpu:8(450GB/s,2us)"),
                                .device = "H100-SXM-80GB",
                                .batch = 64,
                                .sequence = 4096,
                                .as = "vllm"});
    if (!answer.fits()) return 1;
    const auto& best = *answer.served();
    std::printf("%s: %.1f to %.1f ms a token\n", to_string(best.layout).c_str(), 1e3 * best.decode.low,
                1e3 * best.decode.high);
    std::printf("%s\n", answer.settings->text.c_str());
} catch (const rankmesh::UsageError& error) {  // such as a model that is not known
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
}
