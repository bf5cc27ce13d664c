// SPDX-License-Identifier: Apache-2.0
// The effective rates of a machine, and the seconds of products and communication at them; what the stages of
// a pipeline hold, and what layers keep for the backward pass.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

#include "plan/constants.hpp"

namespace rankmesh::plan {

struct PassSeconds {
    double forward = 0;
    double backward = 0;
    PassSeconds& operator+=(const PassSeconds& other) {
        forward += other.forward;
        backward += other.backward;
        return *this;
    }
};

/// Communication beside compute: its seconds, and the same times the share of the channels that it occupies.
struct Beside {
    double seconds = 0;
    double busy = 0;
    Beside& operator+=(const Beside& other) {
        seconds += other.seconds, busy += other.busy;
        return *this;
    }
    friend Beside operator+(Beside one, const Beside& other) { return one += other; }
    friend Beside operator*(double times, const Beside& one) {
        return {times * one.seconds, times * one.busy};
    }
};

struct Rates {
    const Constants& c;
    const Machine& machine;
    double dense;
    double linear;
    double memory;
    double scale_up;
    double scale_out;

    Rates(const Job& job, const Constants& constants) : c(constants), machine(job.machine) {
        const auto& device = machine.device;
        dense = device.sustained * device.gemm_rate;
        linear = c.matrix * dense;
        if (job.precision == Precision::fp8 && device.fp8_rate > 0)
            linear *= c.fp8 * device.fp8_rate / device.dense_rate;
        memory = c.memory * device.memory_bandwidth;
        scale_up = c.scale_up * machine.scale_up;
        scale_out = c.scale_out * machine.scale_out;
    }

    /// Returns the seconds of `count` products of M x K and K x N elements.
    double product(double m, double n, double k, double count, double rate) const {
        const auto operations = 2 * m * n * k * count / rate * (1 + c.edge * (1 / m + 1 / n + 1 / k));
        return std::max(operations, 2 * (m * k + k * n + m * n) * count / memory);
    }
    /// Returns the seconds of `count` linear layers of `tokens` from `in` to `out` elements.
    PassSeconds layer(double tokens, double out, double in, double count = 1) const {
        return {product(tokens, out, in, count, linear),
                product(tokens, in, out, count, linear) + product(in, out, tokens, count, linear)};
    }
    /// Returns the seconds in which a ring of `ranks`, `local` of them on each node, gathers or scatters
    /// `bytes` once.
    double ring(double bytes, double ranks, double local, double hop) const {
        if (ranks <= 1 || bytes <= 0) return 0;
        const auto bandwidth =
            local >= ranks ? scale_up : std::min(scale_up, scale_out * std::max(1.0, local));
        return bytes * (ranks - 1) / ranks / bandwidth + (ranks - 1) * hop;
    }
    /// Returns the share of NCCL's 16 channels that a ring occupies. Between nodes it has two for each
    /// network card that its ranks drive, from Hopper on four (NCCL, src/graph/connect.cc).
    double channels(double ranks, double local) const {
        if (local >= ranks || c.channels == 0) return 1;
        return std::min(1.0, local * (machine.device.fp8_rate > 0 ? 4 : 2) / 16);
    }
    /// Returns what `ring` takes beside compute.
    Beside beside(double bytes, double ranks, double local, double hop) const {
        const auto seconds = ring(bytes, ranks, local, hop);
        return {seconds, seconds * channels(ranks, local)};
    }
    /// Returns the visible part of `beside`, which runs while the device computes for `seconds`.
    double exposed(const Beside& beside, double seconds) const {
        if (beside.seconds <= 0) return 0;
        return std::max(0.0, beside.seconds - seconds) +
               c.overlap * std::min(1.0, seconds / beside.seconds) * beside.busy;
    }
};

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
