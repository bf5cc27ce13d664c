// SPDX-License-Identifier: Apache-2.0
// The formulas follow vLLM 0.11.2: v1/kv_cache_interface.py (bytes of a token), config/model.py (legal
// sizes), distributed/utils.py (layers of a stage), model_executor/layers/fused_moe/config.py (experts) and
// v1/attention/backends/mla/common.py (dcp). SGLang divides attention and cache in the same way.
#include <rankmesh/plan/serve.hpp>

#include <cmath>

#include <rankmesh/plan/memory.hpp>

#include "plan/bounds.hpp"
#include "plan/constants.hpp"
#include "plan/settings.hpp"

namespace rankmesh::plan {

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

struct Sizes {
    const Layer& layer;
    double attention = 0;  // parameters
    double up = 0;         // of them, the up-projections of the latent state
    double dense = 0;      // of the feed-forward network
    double shared = 0;     // of the shared expert
    double expert = 0;     // of the part of one expert
    double experts = 0;    // parts of experts
    double router = 0;
    double heads = 0;
    double query = 0;   // elements of a query that meets cached keys
    double value = 0;   // elements of its result
    double cache = 0;   // bytes of a token
    double state = 0;   // bytes of a request
    double bytes = 2;   // of a parameter of an expert
    double wide = 2;    // of a parameter of another matrix
    double narrow = 2;  // of a parameter of a plain feed-forward network

    Sizes(const Job& job, const ServeLayout& layout, const Layer& one) : layer(one) {
        const auto tp = static_cast<double>(layout.tp), hidden = static_cast<double>(job.model.hidden);
        const auto head = static_cast<double>(one.head_dim);
        const auto matrices = one.matrices();
        heads = one.heads / tp;
        query = head, value = one.value_dim;
        state = 2 * static_cast<double>(one.state) / tp;
        if (one.kv_rank > 0) {
            const auto queries = heads * (head + one.rope_dim);
            up = heads * (head + value) * one.kv_rank;
            // Each rank has all projections down to the latent states.
            attention = (one.q_rank > 0 ? hidden * one.q_rank + one.q_rank * queries : hidden * queries) +
                        hidden * (one.kv_rank + one.rope_dim) + up + heads * value * hidden;
            query = one.kv_rank + one.rope_dim;
            value = one.kv_rank;
        } else {
            const auto kv_heads = one.kv_heads > 0 ? std::max(1.0, one.kv_heads / tp) : 0.0;
            attention = hidden * (heads * ((one.gate ? 2 : 1) * head + value) + kv_heads * (head + value));
        }
        attention += static_cast<double>(one.weights + one.more) / tp;
        dense = matrices * hidden * one.ffn / tp;
        shared = matrices * hidden * one.shared_ffn / tp;
        const auto stage = tp * layout.dp;
        experts = layout.ep > 1 ? one.experts / stage : one.experts;
        expert = matrices * hidden * one.expert_ffn / (layout.ep > 1 ? 1 : stage);
        router = hidden * one.experts;
        cache = static_cast<double>(cache_bytes(one, layout));
        bytes = plan::bytes(job.weights.value_or(job.precision));
        wide = job.only_experts ? 2 : bytes;
        narrow = job.model.experts() > 0 ? wide : bytes;
    }

    /// Returns the bytes of the parameters of a layer. FP8 weights have a copy of the up-projections in
    /// bfloat16.
    double weights(double loaded) const {
        const auto up_copy = wide < 2 ? 2 * up : 0.0;
        return wide * (attention + shared) + narrow * dense + bytes * loaded * expert + up_copy + 2 * router;
    }
    /// Returns the tokens of a sequence that a layer keeps and sees.
    double kept(double sequence) const {
        return layer.window > 0 ? std::min<double>(layer.window, sequence) : sequence;
    }
};

double ceiling(double a, double b) { return std::ceil(a / b); }

ServeMemory memory(const Job& job, const ServeLayout& layout) {
    const auto& m = job.model;
    auto sizes = std::vector<Sizes>{};
    for (const auto& kind : m.kinds) sizes.emplace_back(job, layout, kind);
    const auto vocabulary = 2.0 * m.hidden * ceiling(m.vocabulary, layout.tp);
    const auto sequence = static_cast<double>(job.sequence);
    const auto requests = ceiling(static_cast<double>(job.batch), layout.dp);
    auto width = 0.0;
    for (const auto& kind : m.kinds)
        width = std::max(width,
                         kind.matrices() * (kind.ffn + kind.shared_ffn + 1.0 * kind.top_k * kind.expert_ffn));
    const auto activations = 2 * batched * (2 * m.hidden + width / layout.tp) + 4 * sampled * m.vocabulary;
    auto order = std::vector<std::size_t>{};
    for (const auto& run : m.runs)
        order.insert(order.end(), static_cast<std::size_t>(run.count), static_cast<std::size_t>(run.kind));
    auto worst = ServeMemory{};
    auto room = 0.0;
    for (int stage = 0; stage < layout.pp; ++stage) {
        const auto [begin, end] = layers_of(layout, m.layers(), stage);
        auto weights = 0.0, request = 0.0, token = 0.0, fixed = 0.0;
        for (int layer = begin; layer < end; ++layer) {
            const auto& one = sizes[order[static_cast<std::size_t>(layer)]];
            weights += one.weights(one.experts);
            request += ceiling(one.kept(sequence), layout.dcp * block) * block * one.cache;
            token += one.kept(sequence) / sequence * one.cache;
            fixed += one.state;
        }
        if (stage == 0) weights += vocabulary + 2.0 * static_cast<double>(m.more) / layout.tp;
        if (stage == layout.pp - 1 && !(m.tied && layout.pp == 1)) weights += vocabulary;
        const auto cache = requests * request, state = requests * fixed;
        const auto free =
            static_cast<double>(serve_capacity(job.machine.device)) - weights - activations - overhead;
        const auto held = token + fixed / sequence * layout.dcp;
        const auto tokens =
            held > 0   ? std::max(0.0, std::floor(free / held / block)) * block * layout.dcp * layout.dp
            : free > 0 ? 1e15
                       : 0.0;
        if (stage == 0 || tokens < room) room = tokens;
        const auto estimate = weights + cache + state + activations + overhead;
        if (stage > 0 && estimate <= static_cast<double>(worst.estimate)) continue;
        worst = {.weights = std::llround(weights),
                 .cache = std::llround(cache),
                 .state = std::llround(state),
                 .activations = std::llround(activations),
                 .overhead = std::llround(overhead),
                 .stage = stage};
        worst.estimate = worst.weights + worst.cache + worst.state + worst.activations + worst.overhead;
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

/// Requests of a pass on one dp rank, and their tokens.
struct Load {
    double requests;
    double tokens;
    double last;  // tokens with logits
    bool decodes;
};

/// The parts of a pass, in the order in which they are shown.
enum class Part { compute, memory, tp, dcp, ep, pp };

template <class Add>
void communicate(const Job& job, const ServeLayout& layout, const Sizes& sizes, const Load& load,
                 const Add& add) {
    const auto& m = job.model;
    const auto tp = static_cast<double>(layout.tp), dp = static_cast<double>(layout.dp);
    const auto dcp = static_cast<double>(layout.dcp);
    const auto state = 2 * load.tokens * m.hidden;
    // An all-reduce after attention and one after the feed-forward network (Shoeybi et al., arXiv
    // 1909.08053).
    const auto passes =
        (sizes.layer.heads > 0 ? 2 : 0) + (sizes.layer.ffn > 0 || sizes.layer.experts > 0 ? 2 : 0);
    const auto reduced = passes * state * (tp - 1) / tp;
    add(Part::tp, reduced, [&](const Rates& r) { return passes * r.ring(reduced / passes, tp, 1); });
    if (load.decodes && dcp > 1 && sizes.cache > 0) {
        // All heads of the group see each part of the cache; their results are reduced.
        const auto sent = 2 * load.tokens * sizes.heads * (sizes.query + sizes.value) * (dcp - 1);
        add(Part::dcp, sent, [&](const Rates& r) { return 2 * r.ring(sent / 2, dcp, 1); });
    }
    const auto top_k = sizes.layer.top_k;
    if (top_k == 0 || layout.dp == 1) return;
    if (layout.ep == 1) {  // every rank has a slice of all experts: tokens are gathered, results reduced
        const auto sent = 2 * state * (dp - 1);
        return add(Part::ep, sent, [&](const Rates& r) { return 2 * r.ring(sent / 2, dp, tp); });
    }
    // Tokens go to their experts, in FP8 if products are, and come back in bfloat16.
    const auto both = job.precision == Precision::fp8 ? 3.0 : 4.0;
    const auto ranks = tp * dp, nodes = std::max(1.0, ranks / job.machine.node);
    const auto elements = load.tokens / tp * m.hidden;
    const auto once =
        std::min(nodes * (1 - std::pow(1 - 1 / nodes, top_k)), m.most_nodes > 0 ? m.most_nodes : 1.0 * top_k);
    const auto sent = elements * top_k * both * (ranks - 1) / ranks;
    add(Part::ep, sent, [&](const Rates& r) {
        // A token leaves for each node once at best, for each expert by itself at worst.
        const auto copies = r.all_to_all > 0 ? top_k : once;
        const auto outside = elements * copies * both * (nodes - 1) / nodes;
        return std::max(sent / r.scale_up, outside > 0 ? outside / r.scale_out : 0.0) + 2 * r.all_to_all;
    });
}

Pass pass(const Job& job, const ServeLayout& layout, const Load& load) {
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
    const auto counts = m.counts();
    const auto sequence = static_cast<double>(job.sequence);
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
        const auto& one = m.kinds[kind];
        const auto sizes = Sizes(job, layout, one);
        const auto layers = static_cast<double>(counts[kind]);
        // Experts that get a token, if all are equally likely.
        const auto chance = one.experts > 0 ? 1.0 * one.top_k / one.experts : 0.0;
        const auto busy = sizes.experts * (1 - std::pow(1 - chance, load.tokens * layout.dp));
        const auto latent =
            one.kv_rank > 0 && !load.decodes;              // prefill computes keys and values of each head
        const auto routed = load.tokens * one.top_k / tp;  // whole experts
        const auto kept = sizes.kept(sequence);
        // Pairs of a query and a key that it sees. With dcp, each rank computes the heads of its whole group
        // on its part of the cache: as many pairs.
        const auto pairs = load.requests * (load.decodes ? kept : kept * (sequence - kept / 2));
        const auto per_pair = sizes.heads * 2 *
                              (latent ? static_cast<double>(one.head_dim + one.value_dim + one.rope_dim)
                                      : sizes.query + sizes.value);
        multiply(2 * layers *
                     (load.tokens * (sizes.attention + sizes.dense + sizes.shared + sizes.router) +
                      routed * sizes.expert * (layout.ep > 1 ? 1 : tp * layout.dp)),
                 &Rates::linear);
        if (one.heads > 0)
            multiply(layers * (load.tokens * 4 * static_cast<double>(one.state) / tp + pairs * per_pair),
                     &Rates::attention);
        read(layers *
             (sizes.weights(busy) + load.requests * (kept / layout.dcp * sizes.cache + 2 * sizes.state)));
        communicate(job, layout, sizes, load, [&](Part name, double amount, const auto& seconds) {
            add(name, layers * amount, [&](const Rates& r) { return layers * seconds(r); });
        });
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

std::int64_t cache_bytes(const Layer& layer, const ServeLayout& layout) {
    const auto element = layout.fp8_cache ? 1 : 2;
    if (layer.kv_heads == 0) return 0;
    if (layer.kv_rank > 0) return std::int64_t{layer.kv_rank + layer.rope_dim} * element;
    return std::int64_t{std::max(1, layer.kv_heads / layout.tp)} * (layer.head_dim + layer.value_dim) *
           element;
}

std::int64_t serve_capacity(const Device& device) {
    return std::llround(of_serve::utilization * static_cast<double>(capacity(device)));
}

void check(const ServeLayout& layout, const Model& model) {
    const auto refuse = [](const auto&... parts) { throw UsageError(cat("the layout ", parts...)); };
    check_numbers(layout);
    const auto stage = std::int64_t{layout.tp} * layout.dp;
    if (const auto most = settings_of(layout).most_ranks; ranks_of(layout) > most)
        refuse("takes more than ", most, " devices");
    check_axes(model, layout.tp, layout.pp, layout.ep);
    for (const auto& kind : model.kinds)
        for (const auto& [name, width] : {std::pair{"ffn", kind.ffn}, {"shared_ffn", kind.shared_ffn}})
            if (width % layout.tp != 0)
                refuse("has tp=", layout.tp, ", which does not divide ", name, "=", width, " of the model");
    if (layout.tp % layout.dcp != 0)
        refuse("has dcp=", layout.dcp, ", which does not divide its tp=", layout.tp);
    for (const auto& kind : model.kinds) {
        if (layout.dcp == 1 || kind.kv_heads == 0) continue;
        const auto copies = kind.kv_rank > 0 ? layout.tp : layout.tp / kind.kv_heads;
        if (layout.dcp > copies)
            refuse("has dcp=", layout.dcp, ", but tp=", layout.tp, " holds ",
                   copies > 1 ? cat(copies, " copies") : "one copy", " of each of the ", kind.kv_heads,
                   " kv heads; dcp divides copies only");
        if (kind.kv_rank == 0 && kind.heads / kind.kv_heads % layout.dcp != 0)
            refuse("has dcp=", layout.dcp, ", which does not divide the ", kind.heads / kind.kv_heads,
                   " query heads of each kv head");
        if (kind.window > 0)
            refuse("has dcp=", layout.dcp, ", but vLLM does not divide the cache of layers with a window");
    }
    if (layout.ep > 1 && layout.ep != stage)
        refuse("has ep=", layout.ep, "; it takes 1, or tp*dp=", stage, " for whole experts");
    for (const auto& kind : model.kinds)
        if (layout.ep == 1 && kind.experts > 0 && kind.expert_ffn % stage != 0)
            refuse("has ep=1, which cuts the ", kind.expert_ffn, " columns of an expert into tp*dp=", stage,
                   " parts that are not equal");
}

Served serve(const Job& job, const ServeLayout& layout) {
    using namespace of_serve;
    check(job);
    check(layout, job.model);
    if (layout.devices() != job.devices)
        throw UsageError(cat("the layout ", to_string(layout), " has ", layout.devices(), " ranks, the job ",
                             job.devices, " devices"));
    // A pipeline is full if each stage has its share of the requests.
    const auto requests = ceiling(ceiling(static_cast<double>(job.batch), layout.dp), layout.pp);
    auto served = Served{.layout = layout, .memory = memory(job, layout)};
    served.decode = pass(job, layout, {requests, requests, requests, true});
    served.prefill = pass(job, layout, {1, static_cast<double>(job.sequence), 1, false});
    return served;
}

FoundServing serve_search(const Job& job, const std::vector<std::string>& fix,
                          const std::vector<std::string>& most) {
    check(job);
    // Fixed sizes and limits are layouts; 0 is open.
    auto fixed = ServeLayout{0, 0, 0, 0, 0}, limits = fixed;
    for (const auto& text : fix) read_word(text, fixed);
    for (const auto& text : most)
        if (read_word(text, limits).word == "cache")
            throw UsageError(cat(in_quotes(text), " is no limit; only sizes have one, such as tp=8"));
    const auto capacity = serve_capacity(job.machine.device);
    auto found = FoundServing{};
    auto reason = std::string{};
    const auto consider = [&](const ServeLayout& layout) {
        for (const auto& one : settings_of(layout).all)
            if (const auto value = one.value(layout);
                one.words.empty() && ((one.value(fixed) > 0 && value != one.value(fixed)) ||
                                      (one.value(limits) > 0 && value > one.value(limits))))
                return;
        auto served = Served{};
        if (auto fault = fault_of([&] { served = serve(job, layout); }); !fault.empty()) {
            if (reason.empty()) reason = std::move(fault);
            return;
        }
        const auto room = [](const Served& one) {
            return std::pair(-one.memory.tokens, one.memory.estimate);
        };
        if (++found.layouts == 1 || room(served) < room(found.roomiest)) found.roomiest = served;
        if (served.memory.estimate <= capacity) found.best.push_back(std::move(served));
    };
    for (const auto pp : divisors(job.devices))
        for (const auto tp : divisors(job.devices / pp))
            for (const auto dcp : divisors(tp)) {
                const auto dp = job.devices / pp / tp;
                auto layout = ServeLayout{tp, pp, dp, 1, dcp, fixed.fp8_cache};
                consider(layout);
                layout.ep = tp * dp;
                if (layout.ep > 1) consider(layout);
            }
    if (found.layouts == 0 && reason.empty())
        throw UsageError(cat("no layout of ", counted(job.devices, "device"),
                             " has the fixed sizes within the limits; pp * tp * dp must be ", job.devices));
    if (found.layouts == 0)
        throw UsageError(cat("vLLM can run no layout of ", counted(job.devices, "device"),
                             " within these limits, such as: ", reason));
    std::ranges::stable_sort(found.best, {}, [&](const Served& one) {
        return std::pair(fit(one.memory.estimate, capacity), one.decode.high);
    });
    return found;
}

}  // namespace rankmesh::plan
