// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/memory.hpp>

#include <algorithm>
#include <cmath>

#include "plan/stages.hpp"

namespace rankmesh::plan {

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

    const auto elementwise = layout.recompute == Recompute::elementwise;
    const auto fp8 = layout.fp8_activations;
    auto projections = 2 * (heads + 2 * kv_heads) * head;
    if (model.kv_rank > 0)
        projections = (elementwise ? 0 : 2 * heads * (3 * head + 2 * model.rope_dim)) +
                      (fp8 ? 3 : 4) * (model.q_rank + model.kv_rank + model.rope_dim) * split;
    // Inputs and outputs of two norms. Models whose attention keeps its scores also keep masks of dropout.
    // In FP8, the outputs take one byte.
    const auto norms = (unfused ? 10 : fp8 && !elementwise ? 6 : 8) * hidden * split;
    auto scores = 0.0;
    if (unfused && layout.recompute != Recompute::selective)
        scores = 5 * layout.micro_batch * heads * sequence * sequence;
    const auto attention = tokens * (norms + projections + 2 * heads * head) + scores;

    auto kept = Kept{.input = 2 * tokens * hidden * split};
    const auto byte = fp8 ? 1.0 : 2.0;
    const auto wide = byte * matrices * model.ffn / tp;
    kept.dense = attention + tokens * wide;
    if (layout.recompute == Recompute::operations)
        kept.dense =
            tokens * 2 *
            (hidden * split + heads * head +
             0.5 * (2 * hidden * split + (heads + 2 * kv_heads) * head + (matrices - 1) * model.ffn / tp));
    if (elementwise) kept.dense -= tokens * (4 * hidden * split + wide / 3);
    if (model.experts > 0) {
        const auto received = tokens * model.top_k / tp;
        // In FP8, only the input of an expert is kept: its output is weighted before the last matrix.
        kept.expert = attention +
                      received * ((fp8 ? 1 : 4) * hidden * layout.etp + byte * matrices * model.expert_ffn) +
                      tokens * byte * matrices * model.shared_ffn / tp + 4 * tokens * model.experts * split;
        if (layout.recompute == Recompute::operations) kept.expert -= tokens * 4 * hidden * split;
        if (elementwise) kept.expert -= 4 * tokens * hidden * split + byte * received * model.expert_ffn;
    }
    const auto away = layout.offload / 100.0;
    kept.offloaded_dense = away * kept.dense;
    kept.offloaded_expert = away * kept.expert;
    kept.offloaded_input = away * kept.input;
    kept.input -= kept.offloaded_input;
    kept.dense -= kept.offloaded_dense;
    kept.expert -= kept.offloaded_expert;
    return kept;
}

namespace of_memory {

std::int64_t bytes(double value) { return static_cast<std::int64_t>(std::min(value, 1e18)); }

}  // namespace of_memory

std::vector<Stage> stages_of(const Layout& layout, const Model& model) {
    auto all = std::vector<Stage>{};
    auto front = model.experts == 0 ? model.layers : model.dense_layers;
    for (int stage = 0; stage < layout.pp; ++stage) {
        const auto layers = stage_layers(layout, model.layers, stage);
        const auto dense = std::clamp(front, 0, layers);
        front -= dense;
        all.push_back({.dense = static_cast<double>(dense),
                       .expert = static_cast<double>(layers - dense),
                       .first = stage == 0 ? 1.0 : 0.0,
                       .last = stage == layout.pp - 1 ? 1.0 : 0.0});
    }
    return all;
}

Memory memory(const Job& job, const Layout& layout) {
    const auto& model = job.model;
    const auto& stack = job.stack;
    const auto counts = parameters(model);
    const auto tp = static_cast<double>(layout.tp);
    const auto kept = plan::kept(job, layout);
    const auto dual = layout.schedule == Schedule::dual_pipe;
    const auto tokens = layout.micro_batch * static_cast<double>(job.sequence) / layout.cp;
    const auto micro_batches = std::max(
        1.0,
        std::floor(static_cast<double>(job.batch) / (static_cast<double>(layout.dp) * layout.micro_batch)));
    const auto replicas = static_cast<double>(layout.dp) * layout.cp;
    // DualPipe holds each stage on two ranks, which share the optimizer's state.
    const auto shards = static_cast<double>(layout.shards()) * (dual ? 2 : 1);
    const auto copies = std::max(1.0, std::floor(tp * replicas / layout.ep / layout.etp)) * (dual ? 2 : 1);
    const auto gradient = layout.gradient_bytes > 0 ? layout.gradient_bytes : stack.gradient_memory;
    const auto moments = layout.bf16_moments ? 4.0 : 8.0;
    const auto vocabulary = static_cast<double>(counts.embedding) / tp;
    const auto beside_experts = static_cast<double>(counts.expert_layer - counts.expert * model.experts);
    const auto front = model.experts == 0 ? model.layers : model.dense_layers;
    const auto widest =
        (model.gated ? 2.0 : 1.0) * model.hidden * model.ffn / tp;  // the largest matrix of a layer

    auto worst = Memory{};
    const auto stages = stages_of(layout, model);
    for (int stage = 0; stage < layout.pp; ++stage) {
        auto held = stages[static_cast<std::size_t>(stage)];
        if (dual) held += stages[static_cast<std::size_t>(layout.pp - 1 - stage)];
        const auto dense = held.dense, with_experts = held.expert;
        const auto layers = dense + with_experts;
        auto shared = (dense * static_cast<double>(counts.dense_layer) + with_experts * beside_experts) / tp;
        const auto last = held.last > 0;
        if (held.first > 0) shared += vocabulary;
        if (last && !(model.tied && layout.pp == 1)) shared += vocabulary;
        const auto experts = model.experts == 0 ? 0.0
                                                : with_experts * static_cast<double>(counts.expert) *
                                                      model.experts / layout.ep / layout.etp;

        auto parameters = 0.0, gradients = 0.0, optimizer = 0.0, buffers = 0.0;
        if (layout.zero == 3) {
            const auto per_rank = shared / shards + experts / copies;
            parameters = 4 * per_rank;
            gradients = 4 * per_rank;
            optimizer = moments * per_rank;
            // Two layers are gathered at a time. A pipeline gathers its stage once and reduces at the end.
            buffers =
                layout.pp > 1
                    ? 6 * shared
                    : 4 * (static_cast<double>(front > 0 ? counts.dense_layer : counts.attention)) / tp +
                          4 * vocabulary * (counts.embedding > counts.dense_layer ? 1.0 : 0.5);
        } else if (layout.zero == 2) {
            parameters = 4 * shared / shards + 2 * shared + 6 * experts;
            gradients = 4 * shared / shards + 4 * experts / copies;
            optimizer = moments * (shared / shards + experts / copies);
            // The gradients of a stage wait for its last micro-batch; of an interleaved stage, two chunks.
            buffers = layout.vpp > 1 ? 4 * shared * std::min(1.0, 2.0 / layout.vpp) : 2 * shared;
        } else {
            parameters = 2 * (shared + experts);
            gradients = gradient * (shared + experts);
            optimizer =
                (4 + moments) * (layout.zero == 1 ? shared / shards + experts / copies : shared + experts);
            buffers = std::min<double>(gradient, 4.0) * widest;  // one gradient before accumulation
        }
        auto in_flight = std::min<double>(micro_batches, layout.pp - stage);
        // Half of its layers belong to each of the two directions (DeepSeek-V3, arXiv 2412.19437, table 2).
        if (dual) in_flight = std::min(micro_batches, layout.pp + 1.0) / 2;
        if (layout.vpp > 1)
            in_flight = std::min(micro_batches * layout.vpp,
                                 (layout.pp - stage - 1) * 2.0 + (layout.vpp - 1.0) * layout.pp + 1) /
                        layout.vpp;
        const auto all = dense * kept.dense + with_experts * kept.expert;
        auto activations = in_flight * all;
        if (layout.recompute == Recompute::full) {
            const auto again =
                layout.recompute_layers > 0 ? std::min<double>(layout.recompute_layers, layers) : layers;
            const auto share = layers > 0 ? again / layers : 0.0;
            const auto working = std::max(dense > 0 ? kept.dense + kept.offloaded_dense : 0.0,
                                          with_experts > 0 ? kept.expert + kept.offloaded_expert : 0.0);
            activations = in_flight * (again * kept.input + (1 - share) * all) + working;
        }
        // One layer moves to the host or back while another computes.
        if (layout.recompute != Recompute::full)
            activations += std::min(2.0, layers) * std::max(kept.offloaded_dense, kept.offloaded_expert);
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
