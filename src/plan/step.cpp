// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/step.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "plan/constants.hpp"
#include "plan/stages.hpp"

namespace rankmesh::plan {

namespace of_step {

constexpr Constants fitted = {};

/// Seconds of the forward and the backward pass.
struct Both {
    double forward = 0;
    double backward = 0;
    Both& operator+=(const Both& other) {
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

/// The effective rates of a machine, from the constants.
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
    Both layer(double tokens, double out, double in, double count = 1) const {
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

double micro_batches(const Job& job, const Layout& layout) {
    return std::max(1.0,
                    static_cast<double>(job.batch) / (static_cast<double>(layout.dp) * layout.micro_batch));
}

/// The stages of a step: seconds of one micro-batch, and what the slowest stage does.
struct Busy {
    double slowest = 0;
    double sum = 0;
    int worst = 0;
    double less = 0;  ///< share of the layers of the slowest stage that are not computed again
    double most = 0;  ///< layers that a device holds
};

Busy busy(const Pieces& pieces, const Layout& layout, const Stages& stages, double share, double send) {
    auto found = Busy{};
    for (int stage = 0; stage < layout.pp; ++stage) {
        const auto held = stages[stage];
        auto layers = 0.0, sum = 0.0, again = 0.0;
        for (std::size_t i = 0; i < held.size(); ++i) {
            if (held[i] == 0) continue;
            layers += held[i], sum += held[i] * pieces.kinds[i].sum(),
                again += held[i] * pieces.kinds[i].again;
        }
        found.most = std::max(found.most, layers);
        const auto less = layout.recompute == Recompute::full && layout.recompute_layers > 0
                              ? 1 - std::min<double>(layout.recompute_layers, share * layers) /
                                        std::max(1.0, share * layers)
                              : 0.0;
        const auto seconds = send + share * (sum - less * again + stages.first(stage) * pieces.embedding +
                                             stages.last(stage) * pieces.head);
        found.sum += seconds;
        if (seconds > found.slowest) found.slowest = seconds, found.worst = stage, found.less = less;
    }
    return found;
}

/// The communication of data parallelism, and the parameters that the optimizer of a device updates.
struct Sharing {
    double seconds = 0;
    double parameters = 0;
};

/// `most`: layers that a device holds. `body`: seconds of compute that communication may run beside.
Sharing data_parallel(const Job& job, const Layout& layout, const Rates& rates, const Parameters& counts,
                      double most, double body) {
    const auto& model = job.model;
    const auto& stack = job.stack;
    const auto tp = static_cast<double>(layout.tp);
    const auto node = static_cast<double>(job.machine.node);
    const auto micro_batches = of_step::micro_batches(job, layout);
    // Parameters of a device: `shared` ones, which all of dp and cp hold, and experts, which fewer ranks
    // hold. The layers of a device are taken as the mean of all.
    auto layer = 0.0, routed = 0.0;
    const auto numbers = model.counts();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto part = static_cast<double>(numbers[i]) / model.layers();
        layer += part * static_cast<double>(counts.kinds[i].beside);
        routed += part * static_cast<double>(counts.kinds[i].expert) * model.kinds[i].experts;
    }
    const auto vocabulary =
        static_cast<double>(counts.embedding) / tp * (layout.pp > 1 || model.tied ? 1 : 2);
    const auto shared = layer * most / tp + vocabulary;
    const auto experts = routed / layout.ep / layout.etp * most;
    const auto replicas = static_cast<double>(layout.dp) * layout.cp;
    // Copies of an expert.
    const auto copies = std::max(1.0, std::floor(tp * replicas / layout.ep / layout.etp));
    const auto shards = static_cast<double>(layout.shards());
    const auto local = tp < node ? std::max(1.0, std::min(replicas, std::floor(node / tp))) : 1.0;
    const auto wire = layout.gradient_bytes > 0 ? layout.gradient_bytes : stack.gradient_bytes;
    auto held = layout.zero > 0 ? shards : 1.0;  // the ranks that share the optimizer's state
    const auto ring = [&](double bytes, double ranks, double near, double hop) {
        return rates.beside(bytes, ranks, near, hop);
    };
    auto seconds = 0.0;
    if (layout.zero == 3) {
        auto beside =
            micro_batches * ring(2 * 2 * shared + wire * shared, shards, std::min(local, shards), 0);
        beside += micro_batches *
                  (2 * ring(2 * experts, copies, 1, stack.hop) + ring(wire * experts, copies, 1, stack.hop));
        if (shards < replicas) beside += 2 * ring(wire * shared / shards, replicas / shards, 1, stack.hop);
        seconds = rates.exposed(beside, body) + micro_batches * 3 * most * stack.hop * (shards - 1);
    } else if (layout.zero == 2) {
        // A chunk of an interleaved stage runs pp micro-batches in a row, and reduces its gradients once.
        const auto times = layout.vpp > 1 ? micro_batches / layout.pp : micro_batches;
        const auto beside =
            times * (ring(wire * shared, replicas, local, 0) + ring(wire * experts, copies, 1, stack.hop)) +
            ring(2 * shared, replicas, local, 0) + ring(2 * experts, copies, 1, stack.hop);
        seconds = rates.exposed(beside, body) + times * 2 * most * stack.hop * (replicas - 1);
        held = replicas;
    } else {
        auto reduce = ring(wire * shared, replicas, local, stack.hop);
        reduce = layout.zero == 0 ? 2 * reduce
                                  : reduce + ring(2 * shared, shards, std::min(local, shards), stack.hop) +
                                        (layout.zero_group > 0 ? reduce : Beside{});
        reduce += ring(wire * experts, copies, 1, stack.hop) + ring(2 * experts, copies, 1, stack.hop);
        seconds = (stack.overlaps ? rates.exposed(reduce, body) : reduce.seconds) +
                  stack.shard_latency * std::max(0.0, held - std::floor(node / tp));
    }
    return {seconds, shared / held + experts / (layout.zero > 0 ? copies : 1.0)};
}

/// Returns the bubble of a schedule over that of 1F1B. `weights` and `again` are the shares of a micro-batch
/// in which gradients of weights are computed, and in which the forward pass is computed again.
double bubble_share(const Layout& layout, double weights, double again) {
    const auto backward = (1 - again) * 2 / 3 + again;
    switch (layout.schedule) {
        case Schedule::zero_bubble:  // (pp - 1) (F + B - 2W): Qi et al., arXiv 2401.10241
            return std::max(0.0, 1 - 2 * weights);
        case Schedule::dual_pipe:  // (pp / 2 - 1) (F&B + B - 3W): DeepSeek-V3, arXiv 2412.19437, table 2
            return (layout.pp / 2.0 - 1) / (layout.pp - 1) * std::max(0.0, 1 + backward - 3 * weights);
        case Schedule::one_f_one_b:
            break;
    }
    return 1;
}

/// Returns the relative error that 9 of 10 steps stay below, and what lies beyond the measured jobs.
std::pair<double, std::string_view> interval(const Job& job, const Layout& layout, const Constants& c) {
    auto error = c.interval;
    auto beyond = std::string_view{};
    if (job.model.experts() > 0) error = std::max(error, c.interval_experts);
    if (job.precision == Precision::fp8) error = std::max(error, c.interval_fp8);
    const auto widen = [&](double by, std::string_view why) {
        error += by;
        if (beyond.empty()) beyond = why;
    };
    if (layout.devices() > c.measured_devices)
        widen(c.interval_unmeasured, "more devices than any measured job");
    if (!job.machine.device.measured) widen(c.interval_unmeasured, "no measured step on this device");
    if (layout.tp > job.machine.node) widen(c.interval_unmeasured, "no measured step with tp across nodes");
    if (layout.schedule != Schedule::one_f_one_b)
        widen(c.interval_unmeasured, "no measured step of this schedule");
    return {std::min(error, 0.5), beyond};
}

}  // namespace of_step

Steps::Steps(const Job& job) : Steps(job, of_step::fitted) {}

Steps::Steps(const Job& job, const Constants& constants) : job_(job), constants_(&constants) {
    check(job_);
    parameters_ = parameters(job_.model);
}

namespace of_step {

/// Returns the seconds of the core of attention.
Both core(const Job& job, const Layout& layout, const Layer& layer, const Rates& rates) {
    const auto& c = rates.c;
    const auto sequence = static_cast<double>(job.sequence);
    const auto sequences = static_cast<double>(layout.micro_batch);
    const auto heads = layer.heads / static_cast<double>(layout.tp);
    const auto head = static_cast<double>(layer.head_dim), value = static_cast<double>(layer.value_dim);
    auto core = Both{};
    if (layer.head_dim == 0) {
        // A state alone.
    } else if (job.stack.attention == Attention::unfused) {
        const auto scores = sequences * heads * sequence * sequence;
        const auto rate = rates.dense * (layer.head_dim % 8 == 0 ? c.batched : c.unaligned);
        core.forward = 2 * scores * (head + value) / rate + c.score_bytes / 3 * scores / rates.memory;
        core.backward = 2 * core.forward;
    } else {
        const auto recent = job.machine.device.fp8_rate > 0 ? 1 : 0;
        const auto efficiency = job.stack.attention == Attention::early_flash ? c.early_flash[recent]
                                : job.stack.attention == Attention::flash     ? c.flash[recent]
                                                                              : c.newest[recent];
        // The share of all pairs of a token and an earlier one that the window holds.
        const auto near = layer.window > 0 ? std::min(1.0, layer.window / sequence) : 1.0;
        const auto operations = sequences * heads * (sequence / layout.cp) * sequence *
                                (head + layer.rope_dim + value) * near * (2 - near);
        core.forward = operations / (efficiency * sequence / (sequence + c.half) * rates.dense);
        core.backward = c.flash_backward * core.forward;
    }
    // Each token updates the state and reads it (Dao and Gu, arXiv 2405.21060).
    const auto state = sequences * sequence / layout.cp * 4 * static_cast<double>(layer.state) / layout.tp /
                       (c.batched * rates.dense);
    core += {state, 2 * state};
    return core;
}

}  // namespace of_step

Pieces Steps::pieces(const Layout& layout) const {
    const auto& c = *constants_;
    const auto& model = job_.model;
    const auto rates = of_step::Rates(job_, c);
    const auto hidden = static_cast<double>(model.hidden);
    const auto tp = static_cast<double>(layout.tp);
    const auto tokens = layout.micro_batch * static_cast<double>(job_.sequence) / layout.cp;
    const auto node = static_cast<double>(job_.machine.node);
    auto pieces = Pieces{};
    for (const auto& kind : model.kinds) pieces.kinds.push_back(piece(layout, kind));
    // The last projection runs in bfloat16.
    const auto logits = model.vocabulary / tp;
    const auto bf16 = c.matrix * rates.dense;
    pieces.head =
        c.head *
        (rates.product(tokens, logits, hidden, 1, bf16) + rates.product(tokens, hidden, logits, 1, bf16) +
         rates.product(logits, hidden, tokens, 1, bf16) + c.loss_bytes * tokens * logits / rates.memory +
         c.tp * c.head_passes * rates.ring(2 * tokens * hidden, tp, std::min(tp, node), job_.stack.hop));
    pieces.embedding = c.head * c.embedding * tokens * hidden / rates.memory;
    if (model.predictors > 0) {
        const auto joined = rates.layer(tokens, hidden / tp, 2 * hidden);
        pieces.head +=
            model.predictors * (pieces.head + joined.forward + joined.backward +
                                pieces.kinds[static_cast<std::size_t>(model.runs.back().kind)].sum());
    }
    return pieces;
}

Pieces::OfLayer Steps::piece(const Layout& layout, const Layer& kind) const {
    const auto& c = *constants_;
    const auto& stack = job_.stack;
    const auto rates = of_step::Rates(job_, c);
    const auto hidden = static_cast<double>(job_.model.hidden);
    const auto sequence = static_cast<double>(job_.sequence);
    const auto sequences = static_cast<double>(layout.micro_batch);
    const auto tp = static_cast<double>(layout.tp), cp = static_cast<double>(layout.cp),
               ep = static_cast<double>(layout.ep);
    const auto tokens = sequences * sequence / cp;
    const auto heads = kind.heads / tp;
    const auto kv_heads = kind.kv_heads > 0 ? std::max(kind.kv_heads / tp, 1.0) : 0.0;
    const auto head = static_cast<double>(kind.head_dim), value = static_cast<double>(kind.value_dim);
    const auto node = static_cast<double>(job_.machine.node);
    const auto matrices = kind.matrices();

    // The projections of attention.
    auto projections = of_step::Both{};
    auto up = of_step::Both{};  // from the latent state
    if (kind.weights > 0)
        projections += rates.layer(tokens, static_cast<double>(kind.weights) / hidden / tp, hidden);
    if (kind.kv_rank > 0) {
        projections += rates.layer(tokens, kind.q_rank + kind.kv_rank + kind.rope_dim, hidden);
        up += rates.layer(tokens, heads * (head + kind.rope_dim), kind.q_rank > 0 ? kind.q_rank : hidden);
        up += rates.layer(tokens, heads * (head + value), kind.kv_rank);
        projections += up;
    } else if (kind.head_dim > 0) {
        projections +=
            rates.layer(tokens, (kind.gate ? 2 : 1) * heads * head + kv_heads * (head + value), hidden);
    }
    if (kind.head_dim > 0) projections += rates.layer(tokens, hidden, heads * value);
    const auto attention = kind.heads > 0 ? of_step::core(job_, layout, kind, rates) : of_step::Both{};

    // Memory-bound operations: bytes that pass through memory. A layer without one of its parts has one norm.
    const auto parts = (kind.heads > 0 ? 0.5 : 0) + (kind.experts > 0 || kind.ffn > 0 ? 0.5 : 0);
    const auto state = 2 * tokens * hidden * (layout.sequence_parallel ? 1 / tp : 1.0) * c.norms * parts;
    const auto between = state + 4 * tokens *
                                     (static_cast<double>(kind.weights) / hidden / tp + heads * head +
                                      kv_heads * (head + value));
    const auto per_byte = c.elementwise * stack.elementwise / rates.memory;
    const auto feed_forward = [&](double width) { return 2 * tokens * width * matrices; };
    const auto elementwise = (between + feed_forward(kind.ffn / tp)) * per_byte;

    // Communication: tensor parallelism passes the hidden state around the ring four times per pass
    // (Korthikanti et al., arXiv 2205.05198), twice for each part of a layer.
    const auto tp_seconds = parts * c.tp * 4 *
                            rates.ring(2 * tokens * hidden, tp, std::min(tp, node), stack.hop) *
                            (1 - stack.tp_hidden);
    auto cp_seconds = of_step::Both{};
    if (layout.cp > 1 && kind.head_dim > 0) {
        const auto local = std::max(1.0, std::min(cp, std::floor(node / tp)));
        const auto width =
            kind.kv_rank > 0 ? heads * (head + value + kind.rope_dim) : kv_heads * (head + value);
        const auto pass = rates.beside(2 * sequences * sequence * width, cp, local, stack.hop);
        cp_seconds = {c.cp * rates.exposed(pass, attention.forward),
                      c.cp * rates.exposed(2 * pass, attention.backward)};
    }

    // Returns one layer with the products `linear`, `between_seconds` of memory-bound operations and an
    // all-to-all of `ep_pass` seconds per pass.
    const auto layer = [&](const of_step::Both& linear, double between_seconds, double tp_pass,
                           double ep_pass, double floor) {
        auto one = Pieces::OfLayer{};
        // All-to-all runs beside the compute of another micro-batch.
        const auto shown = [&](double seconds, double beside) {
            if (!layout.overlap_experts || seconds <= 0) return seconds;
            return std::max(0.0, seconds - beside) + c.expert_overlap * std::min(seconds, beside);
        };
        const auto forward =
            linear.forward + between_seconds + attention.forward + tp_pass + cp_seconds.forward + c.launch;
        const auto backward = linear.backward + 2 * between_seconds + attention.backward + tp_pass +
                              cp_seconds.backward + c.launch;
        const auto compute = linear.forward + linear.backward + 3 * between_seconds + 2 * c.launch;
        const auto sent = shown(2 * ep_pass, compute + attention.forward + attention.backward);
        const auto waits = layout.overlap_experts
                               ? std::max(0.0, (1 + c.expert_backward) * floor - forward - backward - sent)
                               : std::max(0.0, floor - forward - ep_pass) +
                                     std::max(0.0, c.expert_backward * floor - backward - ep_pass);
        auto& again = one.repeated;
        switch (layout.recompute) {
            case Recompute::none:
                break;
            case Recompute::selective:
                again.attention = attention.forward;
                break;
            case Recompute::elementwise:
                again.compute = between_seconds + up.forward;
                break;
            case Recompute::operations:
                again.compute = linear.forward / 2 + between_seconds;
                break;
            case Recompute::full:
                again = {linear.forward + between_seconds + c.launch, attention.forward, tp_pass,
                         cp_seconds.forward, ep_pass};
                break;
        }
        again.ep = shown(again.ep, again.compute + again.attention);
        again = {again.compute * c.recompute, again.attention * c.recompute, again.tp * c.recompute,
                 again.cp * c.recompute, again.ep * c.recompute};
        one.again = again.sum();
        one.compute = compute + waits + again.compute;
        one.attention = attention.forward + attention.backward + again.attention;
        one.tp = 2 * tp_pass + again.tp;
        one.cp = cp_seconds.forward + cp_seconds.backward + again.cp;
        one.ep = sent + again.ep;
        return one;
    };

    auto linear = projections;
    if (kind.experts == 0) {
        if (kind.ffn > 0) {
            linear += rates.layer(tokens, (matrices - 1) * kind.ffn / tp, hidden);
            linear += rates.layer(tokens, hidden, kind.ffn / tp);
        }
        return layer(linear, elementwise, tp_seconds, 0, 0);
    }
    // Tokens of a device if all experts are equally busy: those that it sends, and those at its experts.
    const auto etp = c.expert_tp > 0 ? static_cast<double>(layout.etp) : 1.0;
    const auto sent = tokens * kind.top_k / tp;
    const auto received = sent * etp;
    const auto width = kind.expert_ffn / etp;
    const auto local_experts = kind.experts / ep;
    linear += rates.layer(received / local_experts, (matrices - 1) * width, hidden, local_experts);
    linear += rates.layer(received / local_experts, hidden, width, local_experts);
    if (kind.shared_ffn > 0) {
        linear += rates.layer(tokens, (matrices - 1) * kind.shared_ffn / tp, hidden);
        linear += rates.layer(tokens, hidden, kind.shared_ffn / tp);
    }
    const auto bytes = between + feed_forward(kind.shared_ffn / tp) + 2 * received * width * matrices +
                       2 * received * hidden * c.dispatch;
    auto pass = 0.0;
    if (layout.ep > 1) {
        const auto local = std::min(ep, std::max(1.0, std::floor(node / etp)));
        const auto element = layout.fp8_activations ? 1.5 : 2.0;  // dispatch in FP8, combine in bfloat16
        // Tokens that a device sends to `places` of equal experts: one for each place, or for each
        // expert.
        const auto once = stack.tokens_once || layout.dispatch_once;
        const auto copies = [&](double places) {
            return once ? places * (1 - std::pow(1 - 1 / places, kind.top_k))
                        : static_cast<double>(kind.top_k);
        };
        const auto bytes_of_one = element * tokens / tp * hidden;
        pass = bytes_of_one * copies(ep) * (ep - 1) / ep / rates.scale_up;
        if (ep > local) {
            const auto nodes = ep / local;
            auto leave = copies(nodes);
            if (once && job_.model.most_nodes > 0) leave = std::min<double>(leave, job_.model.most_nodes);
            pass = std::max(pass, bytes_of_one * leave * (nodes - 1) / nodes / rates.scale_out);
        }
        pass = c.ep * 2 * (pass + c.all_to_all);
    }
    pass += c.ep * 2 * rates.ring(2 * received * hidden, etp, std::min(etp, node), stack.hop);
    // Without a shared expert only attention, half of the layer, communicates over tp.
    return layer(linear, bytes * per_byte,
                 tp_seconds * (kind.shared_ffn > 0 ? 1
                               : kind.heads > 0    ? 0.5
                                                   : 0),
                 pass, stack.expert_launch);
}

Step Steps::step(const Pieces& pieces, const Layout& layout) const {
    const auto& c = *constants_;
    const auto& model = job_.model;
    const auto& stack = job_.stack;
    const auto rates = of_step::Rates(job_, c);
    const auto tp = static_cast<double>(layout.tp);
    const auto node = static_cast<double>(job_.machine.node);
    const auto tokens =
        static_cast<double>(layout.micro_batch) * static_cast<double>(job_.sequence) / layout.cp;
    const auto micro_batches = of_step::micro_batches(job_, layout);

    auto send = 0.0;
    if (layout.pp > 1) {
        const auto stage = tp * layout.cp * layout.dp;
        const auto crosses = stage * layout.pp > node && stage >= node;
        send = c.pp * 2 *
               (2 * tokens * model.hidden / tp / (crosses ? rates.scale_out : rates.scale_up) + c.send) *
               layout.vpp;
    }

    // With DualPipe, half of the micro-batches run through the mirrored stage.
    const auto share = layout.schedule == Schedule::dual_pipe ? 0.5 : 1.0;
    const auto stages = Stages(layout, model);
    const auto busy = of_step::busy(pieces, layout, stages, share, send);
    const auto& [slowest, sum, worst, less, most] = busy;
    auto step = Step{};
    auto again = 0.0, weights = 0.0;
    for (std::size_t i = 0; i < pieces.kinds.size(); ++i) {
        const auto& one = pieces.kinds[i];
        const auto layers = share * stages[worst][i];
        if (layers == 0) continue;
        for (const auto& [part, seconds] : {std::pair{&Step::compute, &Pieces::Parts::compute},
                                            {&Step::attention, &Pieces::Parts::attention},
                                            {&Step::tp, &Pieces::Parts::tp},
                                            {&Step::cp, &Pieces::Parts::cp},
                                            {&Step::ep, &Pieces::Parts::ep}})
            step.*part += micro_batches * layers * (one.*seconds - less * one.repeated.*seconds);
        again += layers * (1 - less) * one.again;
        weights += layers * (one.compute - one.repeated.compute) / 3;
    }
    step.pp = micro_batches * send;
    step.head =
        micro_batches * share * (stages.first(worst) * pieces.embedding + stages.last(worst) * pieces.head);
    const auto body = micro_batches * slowest;
    if (layout.pp > 1)
        step.bubble =
            c.bubble * (sum - slowest) / layout.vpp *
            (c.schedule > 0 ? of_step::bubble_share(layout, weights / slowest, again / slowest) : 1);
    if (layout.offload > 0) {
        const auto bytes = kept(job_, layout);
        const auto inputs = layout.recompute == Recompute::full ? 1 - less : 0.0;
        auto away = 0.0;
        for (std::size_t i = 0; i < bytes.kinds.size(); ++i)
            away += share * stages[worst][i] *
                    ((1 - inputs) * bytes.kinds[i].offloaded + inputs * bytes.input.offloaded);
        const auto host = c.host[job_.machine.device.fp8_rate > 0 ? 1 : 0];
        step.compute += std::max(0.0, 2 * micro_batches * away / host - body);
    }

    const auto sharing = of_step::data_parallel(job_, layout, rates, parameters_, most, body);
    step.dp = c.dp * sharing.seconds;
    step.optimizer = c.optimizer * c.optimizer_bytes * sharing.parameters / rates.memory;

    const auto devices = static_cast<double>(layout.tp) * layout.cp * layout.pp * layout.dp;
    const auto factor = stack.scale * (1 + c.stragglers * std::log2(std::max(1.0, devices / node)));
    for (auto* one : {&step.compute, &step.attention, &step.tp, &step.cp, &step.ep, &step.dp, &step.pp,
                      &step.bubble, &step.head, &step.optimizer}) {
        *one *= factor;
        step.seconds += *one;
    }
    const auto [interval, beyond] = of_step::interval(job_, layout, c);
    step.low = step.seconds / (1 + interval);
    step.high = step.seconds / (1 - interval);
    step.beyond = beyond;
    return step;
}

Step step(const Job& job, const Layout& layout) { return Steps(job).step(layout); }

}  // namespace rankmesh::plan
