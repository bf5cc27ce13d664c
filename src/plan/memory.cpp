// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/memory.hpp>

#include <cmath>

#include "plan/rates.hpp"

namespace rankmesh::plan {

namespace of_memory {

std::int64_t bytes(double value) { return static_cast<std::int64_t>(std::min(value, 1e18)); }

double kept(const Job& job, const Layout& layout, const Layer& layer) {
    const auto [hidden, tokens, heads, kv_heads, head, value, split, parts] =
        LayerOnDevice(job, layout, layer);
    const auto tp = static_cast<double>(layout.tp);
    const auto sequence = static_cast<double>(job.sequence);
    const auto unfused = job.stack.attention == Attention::unfused;
    const auto matrices = layer.matrices();
    const auto elementwise = layout.recompute == Recompute::elementwise;
    const auto operations = layout.recompute == Recompute::operations;
    const auto fp8 = layout.fp8_activations;

    auto projections =
        2 * (heads * (layer.gate ? 2 : 1) * head + kv_heads * (head + value)) + 2 * heads * value;
    if (layer.kv_rank > 0)
        projections = (elementwise ? 0 : 2 * heads * (2 * head + value + 2 * layer.rope_dim)) +
                      2 * heads * value +
                      (fp8 ? 3 : 4) * (layer.q_rank + layer.kv_rank + layer.rope_dim) * split;
    // The inputs and outputs of its matrices.
    projections += 2 * static_cast<double>(layer.weights) / hidden / tp;
    // Inputs and outputs of two norms. Models whose attention keeps its scores also keep masks of dropout.
    // In FP8, the outputs take one byte.
    const auto norms = parts * (unfused ? 10 : fp8 && !elementwise ? 6 : 8) * hidden * split;
    auto scores = 0.0;
    if (unfused && layout.recompute != Recompute::selective && layer.head_dim > 0)
        scores = 5 * layout.micro_batch * heads * sequence * sequence;
    const auto byte = fp8 ? 1.0 : 2.0;
    const auto attention = tokens * (norms + projections) + scores;
    if (layer.experts == 0) {
        const auto wide = byte * matrices * layer.ffn / tp;
        if (operations)
            return tokens * 2 *
                   (hidden * split + heads * value +
                    0.5 * (2 * hidden * split + heads * head + kv_heads * (head + value) +
                           (matrices - 1) * layer.ffn / tp));
        return attention + tokens * wide -
               (elementwise ? tokens * (8 * parts / 2 * hidden * split + wide / 3) : 0);
    }
    const auto received = tokens * layer.top_k / tp;
    // In FP8, only the input of an expert is kept: its output is weighted before the last matrix.
    auto all = attention +
               received * ((fp8 ? 1 : 4) * hidden * layout.etp + byte * matrices * layer.expert_ffn) +
               tokens * byte * matrices * layer.shared_ffn / tp + 4 * tokens * layer.experts * split;
    if (operations) all -= tokens * 4 * hidden * split;
    if (elementwise) all -= 4 * tokens * hidden * split + byte * received * layer.expert_ffn;
    return all;
}

/// What one stage holds on a device: parameters, and bytes of activations of one micro-batch.
struct Held {
    double layers = 0;
    double shared = 0;   ///< parameters beside experts
    double experts = 0;  ///< parameters of experts
    double all = 0;      ///< activations
    double working = 0;  ///< of these, those of the largest layer while it is computed again
    double offloaded = 0;
};

Held held_by(const Job& job, const Layout& layout, const Parameters& counts, const KeptOf& kept,
             const Stages& stages, int stage) {
    const auto& model = job.model;
    const auto tp = static_cast<double>(layout.tp);
    const auto vocabulary = static_cast<double>(counts.embedding) / tp;
    auto found = Held{};
    const auto add = [&](double layers, std::size_t kind) {
        found.shared += layers * static_cast<double>(counts.kinds[kind].beside) / tp;
        found.experts += layers * static_cast<double>(counts.kinds[kind].expert) * model.kinds[kind].experts /
                         layout.ep / layout.etp;
        found.all += layers * kept.kinds[kind].all;
    };
    const auto held = stages[stage];
    for (std::size_t i = 0; i < held.size(); ++i) {
        if (held[i] == 0) continue;
        add(held[i], i);
        found.layers += held[i];
        found.working = std::max(found.working, kept.kinds[i].all + kept.kinds[i].offloaded);
        found.offloaded = std::max(found.offloaded, kept.kinds[i].offloaded);
    }
    const auto last = stages.last(stage) > 0;
    if (last && model.predictors > 0) {
        add(model.predictors, static_cast<std::size_t>(model.runs.back().kind));
        found.shared += model.predictors * 2.0 * model.hidden * model.hidden / tp;
    }
    if (stages.first(stage) > 0) found.shared += vocabulary + static_cast<double>(model.more) / tp;
    if (last && !(model.tied && layout.pp == 1)) found.shared += vocabulary;
    return found;
}

/// Returns the activations of all micro-batches that a stage holds at a time.
double activations(const Job& job, const Layout& layout, const Held& held, const Kept& input, int stage) {
    const auto micro_batches = std::max(
        1.0,
        std::floor(static_cast<double>(job.batch) / (static_cast<double>(layout.dp) * layout.micro_batch)));
    auto in_flight = std::min<double>(micro_batches, layout.pp - stage);
    // Half of its layers belong to each of the two directions (DeepSeek-V3, arXiv 2412.19437, table 2).
    if (layout.schedule == Schedule::dual_pipe) in_flight = std::min(micro_batches, layout.pp + 1.0) / 2;
    if (layout.vpp > 1)
        in_flight = std::min(micro_batches * layout.vpp,
                             (layout.pp - stage - 1) * 2.0 + (layout.vpp - 1.0) * layout.pp + 1) /
                    layout.vpp;
    // One layer moves to the host or back while another computes.
    if (layout.recompute != Recompute::full)
        return in_flight * held.all + std::min(2.0, held.layers) * held.offloaded;
    const auto again =
        layout.recompute_layers > 0 ? std::min<double>(layout.recompute_layers, held.layers) : held.layers;
    const auto share = held.layers > 0 ? again / held.layers : 0.0;
    return in_flight * (again * input.all + (1 - share) * held.all) + held.working;
}

}  // namespace of_memory

KeptOf kept(const Job& job, const Layout& layout) {
    const auto tokens = layout.micro_batch * static_cast<double>(job.sequence) / layout.cp;
    const auto away = layout.offload / 100.0;
    const auto divided = [&](double bytes) { return Kept{bytes - away * bytes, away * bytes}; };
    auto found = KeptOf{
        .input = divided(2 * tokens * job.model.hidden * (layout.sequence_parallel ? 1.0 / layout.tp : 1.0))};
    for (const auto& kind : job.model.kinds)
        found.kinds.push_back(divided(of_memory::kept(job, layout, kind)));
    return found;
}

Stages::Stages(const Layout& layout, const Model& model)
    : kinds_(model.kinds.size()),
      stages_(layout.pp),
      dual_(layout.schedule == Schedule::dual_pipe),
      counts_(kinds_ * static_cast<std::size_t>(layout.pp)) {
    const auto layers = model.layers();
    auto run = model.runs.begin();
    auto left = run->count;
    for (int stage = 0; stage < stages_; ++stage)
        for (auto missing = stage_layers(layout, layers, stage); missing > 0 && run != model.runs.end();) {
            const auto taken = std::min(missing, left);
            counts_[static_cast<std::size_t>(stage) * kinds_ + static_cast<std::size_t>(run->kind)] += taken;
            missing -= taken, left -= taken;
            if (left == 0 && ++run != model.runs.end()) left = run->count;
        }
    // DualPipe holds each stage on two ranks, and each rank two stages.
    for (std::size_t i = 0; dual_ && i < counts_.size() / 2; ++i) {
        auto& one = counts_[i];
        auto& other = counts_[(static_cast<std::size_t>(stages_) - 1 - i / kinds_) * kinds_ + i % kinds_];
        one = other = one + other;
    }
}

Memory memory(const Job& job, const Layout& layout) {
    const auto& model = job.model;
    const auto& stack = job.stack;
    const auto counts = parameters(model);
    const auto tp = static_cast<double>(layout.tp);
    const auto kept = plan::kept(job, layout);
    const auto tokens = layout.micro_batch * static_cast<double>(job.sequence) / layout.cp;
    // DualPipe holds each stage on two ranks, which share the optimizer's state.
    const auto twice = layout.schedule == Schedule::dual_pipe ? 2 : 1;
    const auto shards = static_cast<double>(layout.shards()) * twice;
    const auto replicas = static_cast<double>(layout.dp) * layout.cp;
    const auto copies = std::max(1.0, std::floor(tp * replicas / layout.ep / layout.etp)) * twice;
    const auto gradient = layout.gradient_bytes > 0 ? layout.gradient_bytes : stack.gradient_memory;
    const auto moments = layout.bf16_moments ? 4.0 : 8.0;
    const auto vocabulary = static_cast<double>(counts.embedding) / tp;
    // The largest matrix of a layer, and the part of a layer that is gathered at once.
    auto widest = 0.0, gathered = 0.0;
    for (std::size_t i = 0; i < counts.kinds.size(); ++i) {
        const auto& kind = model.kinds[i];
        widest = std::max(widest,
                          (kind.gated ? 2.0 : 1.0) * model.hidden * std::max(kind.ffn, kind.shared_ffn) / tp);
        gathered = std::max(
            gathered, static_cast<double>(kind.experts > 0 ? counts.kinds[i].mixer : counts.kinds[i].beside));
    }

    auto worst = Memory{};
    const auto stages = Stages(layout, model);
    for (int stage = 0; stage < layout.pp; ++stage) {
        const auto held = of_memory::held_by(job, layout, counts, kept, stages, stage);
        const auto shared = held.shared, experts = held.experts;
        const auto per_rank = shared / shards + experts / copies;
        auto parameters = 0.0, gradients = 0.0, optimizer = 0.0, buffers = 0.0;
        if (layout.zero == 3) {
            parameters = gradients = 4 * per_rank;
            optimizer = moments * per_rank;
            // Two layers are gathered at a time. A pipeline gathers its stage once and reduces at the end.
            buffers = layout.pp > 1 ? 6 * shared
                                    : 4 * gathered / tp +
                                          4 * vocabulary *
                                              (static_cast<double>(counts.embedding) > gathered ? 1.0 : 0.5);
        } else if (layout.zero == 2) {
            parameters = 4 * shared / shards + 2 * shared + 6 * experts;
            gradients = 4 * per_rank;
            optimizer = moments * per_rank;
            // The gradients of a stage wait for its last micro-batch; of an interleaved stage, two chunks.
            buffers = layout.vpp > 1 ? 4 * shared * std::min(1.0, 2.0 / layout.vpp) : 2 * shared;
        } else {
            parameters = 2 * (shared + experts);
            gradients = gradient * (shared + experts);
            optimizer = (4 + moments) * (layout.zero == 1 ? per_rank : shared + experts);
            buffers = std::min<double>(gradient, 4.0) * widest;  // one gradient before accumulation
        }
        if (stages.last(stage) > 0) buffers += tokens * model.vocabulary / tp * stack.logit_bytes;
        const auto activations = of_memory::activations(job, layout, held, kept.input, stage);
        const auto allocated = parameters + gradients + optimizer + activations + buffers;
        if (stage > 0 && allocated <= static_cast<double>(worst.allocated)) continue;
        worst = {.parameters = of_memory::bytes(parameters),
                 .gradients = of_memory::bytes(gradients),
                 .optimizer = of_memory::bytes(optimizer),
                 .activations = of_memory::bytes(activations),
                 .buffers = of_memory::bytes(buffers),
                 .overhead = of_memory::bytes((stack.reserved - 1) * allocated) + stack.overhead,
                 .stage = stage};
        worst.lower = worst.parameters + worst.gradients + worst.optimizer + worst.activations;
        worst.allocated = worst.lower + worst.buffers;
        worst.estimate = worst.allocated + worst.overhead;
    }
    return worst;
}

std::int64_t capacity(const Device& device) {
    // nvidia-smi's total minus torch's: 551 MiB on H100, 604 on H200, 717 on B200.
    constexpr auto kept = std::int64_t{717} << 20;
    return std::max(device.memory - kept, device.memory / 2);
}

Fit fit(std::int64_t estimate, std::int64_t capacity) {
    if (estimate > capacity) return Fit::too_large;
    return static_cast<double>(estimate) * (1 + memory_error) > static_cast<double>(capacity) ? Fit::tight
                                                                                              : Fit::fits;
}

std::string_view to_string(Fit fit) {
    return fit == Fit::fits ? "fits" : fit == Fit::tight ? "tight" : "does not fit";
}

}  // namespace rankmesh::plan
