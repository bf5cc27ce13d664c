// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline hold, and what layers keep for the backward pass.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// Appends layers that have experts but for the first `dense`, and a window in every other layer, the first
/// too.
inline void add_layers(Model& model, int layers, const Layer& layer, int dense, int window) {
    auto without = layer, with = layer;
    without.experts = without.top_k = without.expert_ffn = without.shared_ffn = 0;
    if (layer.experts > 0) with.ffn = 0;
    for (int i = 0; i < std::min(layers, 100001); ++i) {
        auto one = layer.experts > 0 && i >= dense ? with : without;
        if (window > 0) one.window = i % 2 == 0 ? window : 0;
        model.add(1, one);
    }
}

/// The layers of each kind on each stage of a pipeline.
class Stages {
public:
    Stages(const Layout& layout, const Model& model);
    /// Returns the numbers of layers of a stage; with DualPipe of both stages of its device.
    std::span<const double> operator[](int stage) const {
        return std::span(counts_).subspan(static_cast<std::size_t>(stage) * kinds_, kinds_);
    }
    /// Returns how many embeddings and heads a device has.
    double first(int stage) const { return stage == 0 || (dual_ && stage == stages_ - 1) ? 1 : 0; }
    double last(int stage) const { return stage == stages_ - 1 || (dual_ && stage == 0) ? 1 : 0; }

private:
    std::size_t kinds_;
    int stages_;
    bool dual_;
    std::vector<double> counts_;
};

/// The bytes that one layer of a kind keeps for the backward pass of one micro-batch.
struct Kept {
    double all = 0;
    double offloaded = 0;  ///< bytes that wait in the memory of the host
};
struct KeptOf {
    std::vector<Kept> kinds = {};
    Kept input = {};  ///< if the whole layer is recomputed
};
KeptOf kept(const Job& job, const Layout& layout);

}  // namespace rankmesh::plan
