// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline hold, and what layers keep for the backward pass.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

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

/// Sizes of one layer on one device.
struct LayerOnDevice {
    double hidden;
    double tokens;  ///< of a micro-batch
    double heads;
    double kv_heads;
    double head;   ///< elements of a query or key
    double value;  ///< elements of a value
    double split;  ///< share of the hidden state between the products
    double parts;  ///< share of the two norms: a layer of one part has one norm

    LayerOnDevice(const Job& job, const Layout& layout, const Layer& layer)
        : hidden(job.model.hidden),
          tokens(layout.micro_batch * static_cast<double>(job.sequence) / layout.cp),
          heads(layer.heads / static_cast<double>(layout.tp)),
          kv_heads(layer.kv_heads > 0 ? std::max(layer.kv_heads / static_cast<double>(layout.tp), 1.0) : 0.0),
          head(layer.head_dim),
          value(layer.value_dim),
          split(layout.sequence_parallel ? 1.0 / layout.tp : 1.0),
          parts((layer.heads > 0 ? 0.5 : 0) + (layer.experts > 0 || layer.ffn > 0 ? 0.5 : 0)) {}
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
