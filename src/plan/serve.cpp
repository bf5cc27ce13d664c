// SPDX-License-Identifier: Apache-2.0
// The formulas follow vLLM 0.11.2: v1/kv_cache_interface.py (bytes of a token), config/model.py (legal
// sizes), distributed/utils.py (layers of a stage), model_executor/layers/fused_moe/config.py (experts) and
// v1/attention/backends/mla/common.py (dcp). SGLang divides attention and cache in the same way.
#include <rankmesh/plan/serve.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "plan/constants.hpp"

namespace rankmesh::plan {

using detail::cat;

namespace of_serve {

constexpr Constants c = {};
constexpr auto utilization = 0.9;           // vLLM's gpu_memory_utilization
constexpr auto batched = 8192.0;            // tokens of vLLM's largest prefill on devices of 70 GiB or more
constexpr auto sampled = 256.0;             // requests whose logits exist at once
constexpr auto overhead = 2.0 * (1 << 30);  // stated
constexpr auto block = 16;                  // tokens of vLLM's smallest piece of cache

/// The layers of a stage, as vLLM's `get_pp_indices`: later stages take the remainder, the last one none.
std::pair<int, int> layers_of(const ServeLayout& layout, int layers, int stage) {
    const auto each = layers / layout.pp, rest = layers % layout.pp;
    const auto first_larger = layout.pp - 1 - rest;
    const auto begin = stage * each + std::clamp(stage - first_larger, 0, rest);
    return {begin, begin + each + (stage >= first_larger && stage < layout.pp - 1 ? 1 : 0)};
}

/// Sizes of one layer on one device.
struct Sizes {
    double attention = 0;  // parameters
    double up = 0;         // of them, the up-projections of the latent state
    double dense = 0;      // of the feed-forward network of a dense layer
    double shared = 0;     // of the shared expert
    double expert = 0;     // of the part of one expert
    double experts = 0;    // parts of experts
    double router = 0;
    double heads = 0;
    double query = 0;  // elements of a query that meets cached keys
    double value = 0;  // elements of its result
    double cache = 0;  // bytes of a token
    double bytes = 2;  // of a parameter of a matrix

    Sizes(const Job& job, const ServeLayout& layout) {
        const auto& m = job.model;
        const auto tp = static_cast<double>(layout.tp), hidden = static_cast<double>(m.hidden);
        const auto head = static_cast<double>(m.head_dim);
        const auto matrices = m.gated ? 3.0 : 2.0;
        heads = m.heads / tp;
        if (m.kv_rank > 0) {
            const auto queries = heads * (head + m.rope_dim);
            up = heads * 2 * head * m.kv_rank;
            // Each rank has all projections down to the latent states.
            attention = (m.q_rank > 0 ? hidden * m.q_rank + m.q_rank * queries : hidden * queries) +
                        hidden * (m.kv_rank + m.rope_dim) + up + heads * head * hidden;
            query = m.kv_rank + m.rope_dim;
            value = m.kv_rank;
        } else {
            attention = hidden * head * 2 * (heads + std::max(1.0, m.kv_heads / tp));
            query = value = head;
        }
        dense = matrices * hidden * m.ffn / tp;
        shared = matrices * hidden * m.shared_ffn / tp;
        const auto stage = tp * layout.dp;
        experts = layout.ep > 1 ? m.experts / stage : m.experts;
        expert = matrices * hidden * m.expert_ffn / (layout.ep > 1 ? 1 : stage);
        router = hidden * m.experts;
        cache = static_cast<double>(cache_bytes(m, layout));
        bytes = job.precision == Precision::fp8 ? 1 : 2;
    }

    /// Returns the bytes of the parameters of a layer. FP8 weights have a copy of the up-projections in
    /// bfloat16.
    double weights(bool has_experts, double loaded) const {
        const auto up_copy = bytes < 2 ? 2 * up : 0.0;
        return bytes * attention + up_copy +
               (has_experts ? bytes * (shared + loaded * expert) + 2 * router : bytes * dense);
    }
};

bool has_experts(const Model& model, int layer) { return model.experts > 0 && layer >= model.dense_layers; }

/// Every other layer of a model with a window keeps and sees only the window.
double kept_tokens(const Model& model, double sequence) {
    const auto window = model.window > 0 ? std::min<double>(model.window, sequence) : sequence;
    return (sequence + window) / 2;
}

double ceiling(double a, double b) { return std::ceil(a / b); }

ServeMemory memory(const Job& job, const ServeLayout& layout) {
    const auto& m = job.model;
    const auto sizes = Sizes(job, layout);
    const auto vocabulary = 2.0 * m.hidden * ceiling(m.vocabulary, layout.tp);
    const auto kept = kept_tokens(m, static_cast<double>(job.sequence));
    const auto requests = ceiling(static_cast<double>(job.batch), layout.dp);
    const auto width = std::max<double>(m.dense_layers > 0 || m.experts == 0 ? m.ffn : 0,
                                        m.shared_ffn + 1.0 * m.top_k * m.expert_ffn);
    const auto activations =
        2 * batched * (2 * m.hidden + (m.gated ? 3 : 2) * width / layout.tp) + 4 * sampled * m.vocabulary;
    auto worst = ServeMemory{};
    auto room = 0.0;
    for (int stage = 0; stage < layout.pp; ++stage) {
        const auto [begin, end] = layers_of(layout, m.layers, stage);
        auto weights = 0.0;
        for (int layer = begin; layer < end; ++layer)
            weights += sizes.weights(has_experts(m, layer), sizes.experts);
        if (stage == 0) weights += vocabulary;
        if (stage == layout.pp - 1 && !(m.tied && layout.pp == 1)) weights += vocabulary;
        const auto cache = requests * ceiling(kept, layout.dcp * block) * block * sizes.cache * (end - begin);
        const auto free =
            utilization * static_cast<double>(job.machine.device.memory) - weights - activations - overhead;
        const auto token = sizes.cache * (end - begin) * kept / static_cast<double>(job.sequence);
        const auto tokens = std::max(0.0, std::floor(free / token / block)) * block * layout.dcp * layout.dp;
        if (stage == 0 || tokens < room) room = tokens;
        const auto estimate = weights + cache + activations + overhead;
        if (stage > 0 && estimate <= static_cast<double>(worst.estimate)) continue;
        worst = {.weights = std::llround(weights),
                 .cache = std::llround(cache),
                 .activations = std::llround(activations),
                 .overhead = std::llround(overhead),
                 .stage = stage};
        worst.estimate = worst.weights + worst.cache + worst.activations + worst.overhead;
    }
    worst.tokens = std::llround(room);
    return worst;
}

/// The rates of the data sheet, or those that training sustains.
struct Rates {
    const Machine& machine;
    double head, linear, attention;  // `head`: of the last projection, which is in bfloat16
    double memory, scale_up, scale_out;
    double hop, all_to_all;

    Rates(const Job& job, bool fp8_cache, bool sustained) : machine(job.machine) {
        const auto& device = machine.device;
        const auto part = [&](double constant) { return sustained ? constant : 1.0; };
        const auto recent = device.fp8_rate > 0;
        const auto rate = sustained ? device.sustained * device.gemm_rate : device.dense_rate;
        const auto faster = recent ? device.fp8_rate / device.dense_rate : 1.0;
        head = part(c.matrix) * rate;
        linear = head * (recent && job.precision == Precision::fp8 ? part(c.fp8) * faster : 1);
        attention = rate * (sustained ? c.newest[recent ? 1 : 0] : fp8_cache ? faster : 1);
        memory = part(c.memory) * device.memory_bandwidth;
        scale_up = part(c.scale_up) * machine.scale_up;
        scale_out = part(c.scale_out) * machine.scale_out;
        hop = sustained ? stacks().front().hop : 0;
        all_to_all = sustained ? c.all_to_all : 0;
    }

    /// Returns the seconds in which a ring of `ranks`, `apart` ranks from each other, passes `sent` bytes of
    /// each rank.
    double ring(double sent, double ranks, double apart) const {
        if (ranks <= 1) return 0;
        const auto local = std::max(1.0, std::floor(machine.node / apart));
        const auto bandwidth = ranks > local ? std::min(scale_up, scale_out * local) : scale_up;
        return sent / bandwidth + (ranks - 1) * hop;
    }
};

/// Tokens of a pass on one dp rank, and the pairs of queries and keys in one layer.
struct Load {
    double tokens;
    double pairs;
    double cached;  // tokens of the cache that are read or written
    double last;    // tokens with logits
    bool decodes;
};

/// The parts of a pass, in the order in which they are shown.
enum class Part { compute, memory, tp, dcp, ep, pp };

/// Adds the communication of one layer.
template <class Add>
void communicate(const Job& job, const ServeLayout& layout, const Sizes& sizes, const Load& load,
                 bool has_experts, const Add& add) {
    const auto& m = job.model;
    const auto tp = static_cast<double>(layout.tp), dp = static_cast<double>(layout.dp);
    const auto dcp = static_cast<double>(layout.dcp);
    const auto state = 2 * load.tokens * m.hidden;
    // An all-reduce after attention and one after the feed-forward network (Shoeybi et al., arXiv
    // 1909.08053).
    const auto reduced = 4 * state * (tp - 1) / tp;
    add(Part::tp, reduced, [&](const Rates& r) { return 4 * r.ring(reduced / 4, tp, 1); });
    if (load.decodes && dcp > 1) {
        // All heads of the group see each part of the cache; their results are reduced.
        const auto sent = 2 * load.tokens * sizes.heads * (sizes.query + sizes.value) * (dcp - 1);
        add(Part::dcp, sent, [&](const Rates& r) { return 2 * r.ring(sent / 2, dcp, 1); });
    }
    if (!has_experts || layout.dp == 1) return;
    if (layout.ep == 1) {  // every rank has a slice of all experts: tokens are gathered, results reduced
        const auto sent = 2 * state * (dp - 1);
        return add(Part::ep, sent, [&](const Rates& r) { return 2 * r.ring(sent / 2, dp, tp); });
    }
    // Tokens go to their experts, in FP8 if weights are, and come back in bfloat16.
    const auto ranks = tp * dp, nodes = std::max(1.0, ranks / job.machine.node);
    const auto elements = load.tokens / tp * m.hidden;
    const auto once = std::min(nodes * (1 - std::pow(1 - 1 / nodes, m.top_k)),
                               m.most_nodes > 0 ? m.most_nodes : 1.0 * m.top_k);
    const auto sent = elements * m.top_k * (sizes.bytes + 2) * (ranks - 1) / ranks;
    add(Part::ep, sent, [&](const Rates& r) {
        // A token leaves for each node once at best, for each expert by itself at worst.
        const auto copies = r.all_to_all > 0 ? m.top_k : once;
        const auto outside = elements * copies * (sizes.bytes + 2) * (nodes - 1) / nodes;
        return std::max(sent / r.scale_up, outside > 0 ? outside / r.scale_out : 0.0) + 2 * r.all_to_all;
    });
}

Pass pass(const Job& job, const ServeLayout& layout, const Sizes& sizes, const Load& load) {
    const auto& m = job.model;
    const auto low = Rates(job, layout.fp8_cache, false), high = Rates(job, layout.fp8_cache, true);
    auto made = Pass{.parts = {{"compute"}, {"memory"}, {"tp"}, {"dcp"}, {"ep"}, {"pp"}}};
    const auto add = [&](Part name, double amount, const auto& seconds) {
        auto& part = made.parts[static_cast<std::size_t>(name)];
        part.amount += amount;
        part.low += seconds(low);
        part.high += seconds(high);
    };
    const auto multiply = [&](double flops, double Rates::*rate) {
        add(Part::compute, flops, [&](const Rates& r) { return flops / (r.*rate); });
    };
    const auto read = [&](double bytes) {
        add(Part::memory, bytes, [&](const Rates& r) { return bytes / r.memory; });
    };
    const auto tp = static_cast<double>(layout.tp);
    // Experts that get a token, if all are equally likely.
    const auto chance = m.experts > 0 ? 1.0 * m.top_k / m.experts : 0.0;
    const auto busy = sizes.experts * (1 - std::pow(1 - chance, load.tokens * layout.dp));
    const auto latent = m.kv_rank > 0 && !load.decodes;  // prefill computes keys and values of each head
    const auto per_pair =
        sizes.heads * 2 * (latent ? 2.0 * m.head_dim + m.rope_dim : sizes.query + sizes.value);
    for (int layer = 0; layer < m.layers; ++layer) {
        const auto experts = has_experts(m, layer);
        const auto routed = load.tokens * m.top_k / tp;  // whole experts
        multiply(2 * (load.tokens * sizes.attention +
                      (experts ? load.tokens * (sizes.shared + sizes.router) +
                                     routed * sizes.expert * (layout.ep > 1 ? 1 : tp * layout.dp)
                               : load.tokens * sizes.dense)),
                 &Rates::linear);
        multiply(load.pairs * per_pair, &Rates::attention);
        read(sizes.weights(experts, busy) + load.cached * sizes.cache);
        communicate(job, layout, sizes, load, experts, add);
    }
    const auto logits = 1.0 * m.hidden * m.vocabulary / tp;
    multiply(2 * load.last * logits, &Rates::head);
    read(2 * logits);
    const auto gathered = 2 * load.last * m.vocabulary * (tp - 1) / tp;
    add(Part::tp, gathered, [&](const Rates& r) { return r.ring(gathered, tp, 1); });
    const auto sent = 4 * load.tokens * m.hidden / tp * (layout.pp - 1);  // the state and its residual
    const auto crosses = tp * layout.dp >= job.machine.node;
    add(Part::pp, sent, [&](const Rates& r) {
        return sent / (crosses ? r.scale_out : r.scale_up) + (layout.pp - 1) * r.all_to_all;
    });
    std::erase_if(made.parts, [](const ServePart& part) { return part.amount <= 0; });
    for (const auto& part : made.parts) {
        made.low = std::max(made.low, part.low);
        made.high += part.high;
    }
    return made;
}

}  // namespace of_serve

std::int64_t cache_bytes(const Model& model, const ServeLayout& layout) {
    const auto element = layout.fp8_cache ? 1 : 2;
    if (model.kv_rank > 0) return std::int64_t{model.kv_rank + model.rope_dim} * element;
    return std::int64_t{2} * std::max(1, model.kv_heads / layout.tp) * model.head_dim * element;
}

std::int64_t serve_capacity(const Device& device) {
    return std::llround(of_serve::utilization * static_cast<double>(device.memory));
}

void check(const ServeLayout& layout, const Model& model) {
    const auto refuse = [](const auto&... parts) { throw UsageError(cat("the layout ", parts...)); };
    for (const auto& [name, size] : {std::pair{"tp", layout.tp},
                                     {"pp", layout.pp},
                                     {"dp", layout.dp},
                                     {"ep", layout.ep},
                                     {"dcp", layout.dcp}})
        if (size < 1) refuse("has ", name, "=", size, "; it takes 1 or more");
    const auto stage = std::int64_t{layout.tp} * layout.dp;
    if (stage > (1 << 24) || stage * layout.pp > (1 << 24)) refuse("takes more than ", 1 << 24, " devices");
    if (model.heads % layout.tp != 0)
        refuse("has tp=", layout.tp, ", which does not divide the ", model.heads, " heads of the model");
    const auto copies = model.kv_rank > 0 ? layout.tp : layout.tp / model.kv_heads;
    if (model.kv_rank == 0 && model.kv_heads % layout.tp != 0 && layout.tp % model.kv_heads != 0)
        refuse("has tp=", layout.tp, ", which neither divides the ", model.kv_heads,
               " kv heads of the model nor is a multiple of that number");
    for (const auto& [name, width] : {std::pair{"ffn", model.ffn}, {"shared_ffn", model.shared_ffn}})
        if (width % layout.tp != 0)
            refuse("has tp=", layout.tp, ", which does not divide ", name, "=", width, " of the model");
    if (layout.pp > model.layers)
        refuse("has pp=", layout.pp, " stages for ", detail::counted(model.layers, "layer"));
    if (layout.tp % layout.dcp != 0)
        refuse("has dcp=", layout.dcp, ", which does not divide its tp=", layout.tp);
    if (layout.dcp > 1 && layout.dcp > copies)
        refuse("has dcp=", layout.dcp, ", but tp=", layout.tp, " holds ",
               copies > 1 ? cat(copies, " copies") : "one copy", " of each of the ", model.kv_heads,
               " kv heads; dcp divides copies only");
    if (layout.dcp > 1 && model.kv_rank == 0 && model.heads / model.kv_heads % layout.dcp != 0)
        refuse("has dcp=", layout.dcp, ", which does not divide the ", model.heads / model.kv_heads,
               " query heads of each kv head");
    if (layout.dcp > 1 && model.window > 0)
        refuse("has dcp=", layout.dcp, ", but vLLM does not divide the cache of layers with a window");
    if (layout.ep > 1 && model.experts == 0) refuse("has ep=", layout.ep, ", but the model has no experts");
    if (layout.ep > 1 && layout.ep != stage)
        refuse("has ep=", layout.ep, "; it takes 1, or tp*dp=", stage, " for whole experts");
    if (layout.ep > 1 && model.experts % layout.ep != 0)
        refuse("has ep=", layout.ep, ", which does not divide the ", model.experts, " experts of the model");
    if (layout.ep == 1 && model.experts > 0 && model.expert_ffn % stage != 0)
        refuse("has ep=1, which cuts the ", model.expert_ffn, " columns of an expert into tp*dp=", stage,
               " parts that are not equal");
}

Served serve(const Job& job, const ServeLayout& layout) {
    using namespace of_serve;
    check(job);
    check(layout, job.model);
    if (layout.devices() != job.devices)
        throw UsageError(cat("the layout ", to_string(layout), " has ", layout.devices(), " ranks, the job ",
                             job.devices, " devices"));
    const auto sizes = Sizes(job, layout);
    const auto sequence = static_cast<double>(job.sequence);
    const auto window = job.model.window > 0 ? std::min<double>(job.model.window, sequence) : sequence;
    // A pipeline is full if each stage has its share of the requests.
    const auto requests = ceiling(ceiling(static_cast<double>(job.batch), layout.dp), layout.pp);
    const auto seen = requests * kept_tokens(job.model, sequence) / layout.dcp;
    // With dcp, each rank computes the heads of its whole group on its part of the cache: as many pairs.
    auto served = Served{.layout = layout, .memory = memory(job, layout)};
    served.decode = pass(job, layout, sizes, {requests, seen * layout.dcp, seen, requests, true});
    const auto pairs = sequence * (sequence / 2 + std::min(sequence / 2, window)) / 2;
    served.prefill =
        pass(job, layout, sizes, {sequence, pairs, kept_tokens(job.model, sequence) / layout.dcp, 1, false});
    return served;
}

}  // namespace rankmesh::plan
