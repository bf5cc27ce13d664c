// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/memory.hpp>

#include <algorithm>
#include <cmath>

namespace rankmesh::plan {

namespace of_memory {

/// The bytes that one layer keeps for the backward pass of one micro-batch.
struct Kept {
    double dense = 0;
    double expert = 0;
    double input = 0;  ///< if the whole layer is recomputed
};

Kept kept(const Job& job, const Layout& layout) {
    const auto& model = job.model;
    const auto tp = static_cast<double>(layout.tp);
    const auto sequence = static_cast<double>(job.sequence);
    const auto tokens = layout.micro_batch * sequence / layout.cp;
    const auto hidden = static_cast<double>(model.hidden);
    const auto heads = model.heads / tp;
    const auto kv_heads = std::max(model.kv_heads / tp, 1.0);
    const auto head = static_cast<double>(model.head_dim);
    const auto split = layout.sequence_parallel ? 1 / tp : 1.0;
    const auto unfused = job.stack.attention == Attention::unfused;
    const auto matrices = model.gated ? 3.0 : 2.0;

    auto projections = 2 * (heads + 2 * kv_heads) * head;
    if (model.kv_rank > 0)
        projections = 2 * heads * (3 * head + 2 * model.rope_dim) +
                      4 * (model.q_rank + model.kv_rank + model.rope_dim) * split;
    // Inputs and outputs of two norms. Models whose attention keeps its scores also keep masks of dropout.
    const auto norms = (unfused ? 10 : 8) * hidden * split;
    auto scores = 0.0;
    if (unfused && layout.recompute != Recompute::selective)
        scores = 5 * layout.micro_batch * heads * sequence * sequence;
    const auto attention = tokens * (norms + projections + 2 * heads * head) + scores;

    auto kept = Kept{.input = 2 * tokens * hidden * split};
    const auto wide = 2 * matrices * model.ffn / tp;
    kept.dense = attention + tokens * wide;
    if (layout.recompute == Recompute::operations)
        kept.dense =
            tokens * 2 *
            (hidden * split + heads * head +
             0.5 * (2 * hidden * split + (heads + 2 * kv_heads) * head + (matrices - 1) * model.ffn / tp));
    if (layout.recompute == Recompute::elementwise) kept.dense -= tokens * (4 * hidden * split + wide / 3);
    if (model.experts > 0) {
        const auto received = tokens * model.top_k / tp;
        kept.expert = attention + received * (4 * hidden + 2 * matrices * model.expert_ffn) +
                      tokens * 2 * matrices * model.shared_ffn / tp + 4 * tokens * model.experts * split;
        if (layout.recompute == Recompute::operations) kept.expert -= tokens * 4 * hidden * split;
        if (layout.recompute == Recompute::elementwise)
            kept.expert -= 4 * tokens * hidden * split + 2 * received * model.expert_ffn;
    }
    return kept;
}

std::int64_t bytes(double value) { return static_cast<std::int64_t>(std::min(value, 1e18)); }

}  // namespace of_memory

Memory memory(const Job& job, const Layout& layout) {
    const auto& model = job.model;
    const auto& stack = job.stack;
    const auto counts = parameters(model);
    const auto tp = static_cast<double>(layout.tp);
    const auto kept = of_memory::kept(job, layout);
    const auto tokens = layout.micro_batch * static_cast<double>(job.sequence) / layout.cp;
    const auto micro_batches = std::max(
        1.0,
        std::floor(static_cast<double>(job.batch) / (static_cast<double>(layout.dp) * layout.micro_batch)));
    const auto replicas = static_cast<double>(layout.dp) * layout.cp;
    const auto shards = static_cast<double>(layout.shards());
    const auto copies = std::max(1.0, std::floor(tp * replicas / layout.ep));
    const auto vocabulary = static_cast<double>(counts.embedding) / tp;
    const auto beside_experts = static_cast<double>(counts.expert_layer - counts.expert * model.experts);
    const auto front = model.experts == 0 ? model.layers : model.dense_layers;
    const auto widest =
        (model.gated ? 2.0 : 1.0) * model.hidden * model.ffn / tp;  // the largest matrix of a layer

    auto worst = Memory{};
    auto before = 0;
    for (int stage = 0; stage < layout.pp; ++stage) {
        const auto layers = stage_layers(layout, model.layers, stage);
        const auto dense = std::clamp(front - before, 0, layers);
        before += layers;
        const auto with_experts = layers - dense;
        auto shared = (dense * static_cast<double>(counts.dense_layer) + with_experts * beside_experts) / tp;
        const auto last = stage == layout.pp - 1;
        if (stage == 0) shared += vocabulary;
        if (last && !(model.tied && layout.pp == 1)) shared += vocabulary;
        const auto experts = model.experts == 0 ? 0.0
                                                : with_experts * static_cast<double>(counts.expert) *
                                                      model.experts / layout.ep;

        auto parameters = 0.0, gradients = 0.0, optimizer = 0.0, buffers = 0.0;
        if (layout.zero == 3) {
            const auto held = shared / shards + experts / copies;
            parameters = 4 * held;
            gradients = 4 * held;
            optimizer = 8 * held;
            // Two layers are gathered at a time. A pipeline gathers its stage once and reduces at the end.
            buffers =
                layout.pp > 1
                    ? 6 * shared
                    : 4 * (static_cast<double>(front > 0 ? counts.dense_layer : counts.attention)) / tp +
                          4 * vocabulary * (counts.embedding > counts.dense_layer ? 1.0 : 0.5);
        } else if (layout.zero == 2) {
            parameters = 4 * shared / shards + 2 * shared + 6 * experts;
            gradients = 4 * shared / shards + 4 * experts / copies;
            optimizer = 8 * shared / shards + 8 * experts / copies;
            buffers = 2 * shared;
        } else {
            parameters = 2 * (shared + experts);
            gradients = stack.gradient_memory * (shared + experts);
            optimizer = 12 * (layout.zero == 1 ? shared / shards + experts / copies : shared + experts);
            buffers = std::min(stack.gradient_memory, 4.0) * widest;  // one gradient before accumulation
        }
        auto in_flight = std::min<double>(micro_batches, layout.pp - stage);
        if (layout.vpp > 1)
            in_flight = std::min(micro_batches * layout.vpp,
                                 (layout.pp - stage - 1) * 2.0 + (layout.vpp - 1.0) * layout.pp + 1) /
                        layout.vpp;
        const auto all = dense * kept.dense + with_experts * kept.expert;
        auto activations = in_flight * all;
        if (layout.recompute == Recompute::full) {
            const auto again =
                layout.recompute_layers > 0 ? std::min(layout.recompute_layers, layers) : layers;
            const auto share = layers > 0 ? static_cast<double>(again) / layers : 0.0;
            const auto working = std::max(dense > 0 ? kept.dense : 0.0, with_experts > 0 ? kept.expert : 0.0);
            activations = in_flight * (again * kept.input + (1 - share) * all) + working;
        }
        if (last) buffers += tokens * model.vocabulary / tp * stack.logit_bytes;
        const auto lower = parameters + gradients + optimizer + activations;
        const auto allocated = lower + buffers;
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

std::int64_t capacity(const Device& device) { return device.memory; }

}  // namespace rankmesh::plan
