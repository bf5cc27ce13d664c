// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/step.hpp>

#include <algorithm>
#include <cmath>

#include "plan/constants.hpp"

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
    /// Returns the visible part of `beside`, which runs while the device computes for `seconds`.
    double exposed(double beside, double seconds) const {
        return std::max(0.0, beside - seconds) + c.overlap * std::min(beside, seconds);
    }
};

}  // namespace of_step

Steps::Steps(const Job& job) : Steps(job, of_step::fitted) {}

Steps::Steps(const Job& job, const Constants& constants) : job_(job), constants_(&constants) {
    check(job_);
    parameters_ = parameters(job_.model);
}

Pieces Steps::pieces(const Layout& layout) const {
    const auto& c = *constants_;
    const auto& model = job_.model;
    const auto& stack = job_.stack;
    const auto rates = of_step::Rates(job_, c);
    const auto hidden = static_cast<double>(model.hidden);
    const auto sequence = static_cast<double>(job_.sequence);
    const auto sequences = static_cast<double>(layout.micro_batch);
    const auto tp = static_cast<double>(layout.tp), cp = static_cast<double>(layout.cp),
               ep = static_cast<double>(layout.ep);
    const auto tokens = sequences * sequence / cp;
    const auto heads = model.heads / tp;
    const auto kv_heads = std::max(model.kv_heads / tp, 1.0);
    const auto head = static_cast<double>(model.head_dim);
    const auto node = static_cast<double>(job_.machine.node);
    const auto matrices = model.gated ? 3.0 : 2.0;

    // The projections of attention.
    auto projections = of_step::Both{};
    if (model.kv_rank > 0) {
        projections += rates.layer(tokens, model.q_rank + model.kv_rank + model.rope_dim, hidden);
        projections +=
            rates.layer(tokens, heads * (head + model.rope_dim), model.q_rank > 0 ? model.q_rank : hidden);
        projections += rates.layer(tokens, heads * 2 * head, model.kv_rank);
    } else {
        projections += rates.layer(tokens, (heads + 2 * kv_heads) * head, hidden);
    }
    projections += rates.layer(tokens, hidden, heads * head);

    // The core of attention.
    auto attention = of_step::Both{};
    if (stack.attention == Attention::unfused) {
        const auto scores = sequences * heads * sequence * sequence;
        const auto rate = rates.dense * (model.head_dim % 8 == 0 ? c.batched : c.unaligned);
        attention.forward = 4 * scores * head / rate + c.score_bytes / 3 * scores / rates.memory;
        attention.backward = 2 * attention.forward;
    } else {
        const auto recent = job_.machine.device.fp8_rate > 0 ? 1 : 0;
        const auto efficiency = stack.attention == Attention::early_flash ? c.early_flash[recent]
                                : stack.attention == Attention::flash     ? c.flash[recent]
                                                                          : c.newest[recent];
        // Every other layer sees only the window.
        const auto seen = model.window > 0 && sequence > model.window ? 0.5 + model.window / sequence : 1.0;
        const auto operations =
            sequences * heads * (sequence / cp) * sequence * (2 * head + model.rope_dim) * seen;
        attention.forward = operations / (efficiency * sequence / (sequence + c.half) * rates.dense);
        attention.backward = c.flash_backward * attention.forward;
    }

    // Memory-bound operations: bytes that pass through memory.
    const auto state = 2 * tokens * hidden * (layout.sequence_parallel ? 1 / tp : 1.0) * c.norms;
    const auto between = state + 4 * tokens * (heads + 2 * kv_heads) * head;
    const auto per_byte = c.elementwise * stack.elementwise / rates.memory;
    const auto feed_forward = [&](double width) { return 2 * tokens * width * matrices; };
    const auto elementwise = (between + feed_forward(model.ffn / tp)) * per_byte;

    // Communication: tensor parallelism passes the hidden state around the ring four times per pass
    // (Korthikanti et al., arXiv 2205.05198).
    const auto tp_seconds =
        c.tp * 4 * rates.ring(2 * tokens * hidden, tp, std::min(tp, node), stack.hop) * (1 - stack.tp_hidden);
    auto cp_seconds = of_step::Both{};
    if (layout.cp > 1) {
        const auto local = std::max(1.0, std::min(cp, std::floor(node / tp)));
        const auto width = model.kv_rank > 0 ? heads * (2 * head + model.rope_dim) : kv_heads * 2 * head;
        const auto pass = rates.ring(2 * sequences * sequence * width, cp, local, stack.hop);
        cp_seconds = {c.cp * rates.exposed(pass, attention.forward),
                      c.cp * rates.exposed(2 * pass, attention.backward)};
    }

    // Returns one layer with the products `linear`, `between_seconds` of memory-bound operations and an
    // all-to-all of `ep_pass` seconds per pass.
    const auto layer = [&](const of_step::Both& linear, double between_seconds, double tp_pass,
                           double ep_pass, double floor) {
        auto one = Pieces::Layer{};
        const auto forward = linear.forward + between_seconds + attention.forward + tp_pass +
                             cp_seconds.forward + ep_pass + c.launch;
        const auto backward = linear.backward + 2 * between_seconds + attention.backward + tp_pass +
                              cp_seconds.backward + ep_pass + c.launch;
        const auto waits =
            std::max(0.0, floor - forward) + std::max(0.0, c.expert_backward * floor - backward);
        auto& again = one.repeated;
        switch (layout.recompute) {
            case Recompute::none:
                break;
            case Recompute::selective:
                again.attention = attention.forward;
                break;
            case Recompute::elementwise:
                again.compute = between_seconds;
                break;
            case Recompute::operations:
                again.compute = linear.forward / 2 + between_seconds;
                break;
            case Recompute::full:
                again = {linear.forward + between_seconds + c.launch, attention.forward, tp_pass,
                         cp_seconds.forward, ep_pass};
                break;
        }
        again = {again.compute * c.recompute, again.attention * c.recompute, again.tp * c.recompute,
                 again.cp * c.recompute, again.ep * c.recompute};
        one.again = again.sum();
        one.compute =
            linear.forward + linear.backward + 3 * between_seconds + 2 * c.launch + waits + again.compute;
        one.attention = attention.forward + attention.backward + again.attention;
        one.tp = 2 * tp_pass + again.tp;
        one.cp = cp_seconds.forward + cp_seconds.backward + again.cp;
        one.ep = 2 * ep_pass + again.ep;
        return one;
    };

    auto pieces = Pieces{};
    if (model.experts == 0 || model.dense_layers > 0) {
        auto linear = projections;
        linear += rates.layer(tokens, (matrices - 1) * model.ffn / tp, hidden);
        linear += rates.layer(tokens, hidden, model.ffn / tp);
        pieces.dense = layer(linear, elementwise, tp_seconds, 0, 0);
    }
    if (model.experts > 0) {
        const auto received =
            tokens * model.top_k / tp;  // tokens of a device if all experts are equally busy
        const auto local_experts = model.experts / ep;
        auto linear = projections;
        linear +=
            rates.layer(received / local_experts, (matrices - 1) * model.expert_ffn, hidden, local_experts);
        linear += rates.layer(received / local_experts, hidden, model.expert_ffn, local_experts);
        if (model.shared_ffn > 0) {
            linear += rates.layer(tokens, (matrices - 1) * model.shared_ffn / tp, hidden);
            linear += rates.layer(tokens, hidden, model.shared_ffn / tp);
        }
        const auto bytes = between + feed_forward(model.shared_ffn / tp) +
                           2 * received * model.expert_ffn * matrices + 2 * received * hidden * c.dispatch;
        auto pass = 0.0;
        if (layout.ep > 1) {
            const auto local = std::min(ep, node);
            const auto inside = 2 * received * hidden * (ep - 1) / ep / rates.scale_up;
            if (ep > local) {
                const auto nodes = ep / local;
                const auto copies = stack.tokens_once ? nodes * (1 - std::pow(1 - 1 / nodes, model.top_k))
                                                      : static_cast<double>(model.top_k);
                const auto outside =
                    2 * tokens / tp * hidden * copies * (nodes - 1) / nodes / rates.scale_out;
                pass = std::max(inside, outside);
            } else {
                pass = inside;
            }
            pass = c.ep * 2 * (pass + c.all_to_all);
        }
        // Without a shared expert only attention, half of the layer, communicates over tp.
        pieces.expert = layer(linear, bytes * per_byte, tp_seconds * (model.shared_ffn > 0 ? 1 : 0.5), pass,
                              stack.expert_launch);
    }
    // The last projection runs in bfloat16.
    const auto logits = model.vocabulary / tp;
    const auto bf16 = c.matrix * rates.dense;
    pieces.head =
        c.head *
        (rates.product(tokens, logits, hidden, 1, bf16) + rates.product(tokens, hidden, logits, 1, bf16) +
         rates.product(logits, hidden, tokens, 1, bf16) + c.loss_bytes * tokens * logits / rates.memory +
         c.tp * c.head_passes * rates.ring(2 * tokens * hidden, tp, std::min(tp, node), stack.hop));
    pieces.embedding = c.head * c.embedding * tokens * hidden / rates.memory;
    return pieces;
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
    const auto micro_batches = std::max(
        1.0, static_cast<double>(job_.batch) / (static_cast<double>(layout.dp) * layout.micro_batch));

    auto send = 0.0;
    if (layout.pp > 1) {
        const auto stage = tp * layout.cp * layout.dp;
        const auto crosses = stage * layout.pp > node && stage >= node;
        send = c.pp * 2 *
               (2 * tokens * model.hidden / tp / (crosses ? rates.scale_out : rates.scale_up) + c.send) *
               layout.vpp;
    }

    // The slowest stage, and the sum of all stages.
    const auto saved = [&](int layers) {
        return layout.recompute == Recompute::full && layout.recompute_layers > 0
                   ? 1 - static_cast<double>(std::min(layout.recompute_layers, layers)) / std::max(1, layers)
                   : 0.0;
    };
    auto slowest = 0.0, sum = 0.0;
    auto dense = 0.0, expert = 0.0,
         less = 0.0;  // layers of the slowest stage, and the share not computed again
    auto on_first = false, on_last = false;
    auto most = 0;
    const auto front = model.experts == 0 ? model.layers : model.dense_layers;
    auto before = 0;
    for (int stage = 0; stage < layout.pp; ++stage) {
        const auto layers = stage_layers(layout, model.layers, stage);
        const auto dense_here = std::clamp(front - before, 0, layers);
        before += layers;
        most = std::max(most, layers);
        const auto less_here = saved(layers);
        auto seconds = send + dense_here * (pieces.dense.sum() - less_here * pieces.dense.again) +
                       (layers - dense_here) * (pieces.expert.sum() - less_here * pieces.expert.again);
        if (stage == 0) seconds += pieces.embedding;
        if (stage == layout.pp - 1) seconds += pieces.head;
        sum += seconds;
        if (seconds > slowest) {
            slowest = seconds;
            dense = dense_here;
            expert = layers - dense_here;
            less = less_here;
            on_first = stage == 0;
            on_last = stage == layout.pp - 1;
        }
    }
    auto step = Step{};
    const auto part = [&](double Pieces::Parts::*one) {
        return micro_batches * (dense * (pieces.dense.*one - less * pieces.dense.repeated.*one) +
                                expert * (pieces.expert.*one - less * pieces.expert.repeated.*one));
    };
    step.compute = part(&Pieces::Parts::compute);
    step.attention = part(&Pieces::Parts::attention);
    step.tp = part(&Pieces::Parts::tp);
    step.cp = part(&Pieces::Parts::cp);
    step.ep = part(&Pieces::Parts::ep);
    step.pp = micro_batches * send;
    step.head = micro_batches * ((on_first ? pieces.embedding : 0) + (on_last ? pieces.head : 0));
    const auto body = micro_batches * slowest;
    if (layout.pp > 1) step.bubble = c.bubble * (sum - slowest) / layout.vpp;

    // Parameters of a device: `shared` ones, which all of dp and cp hold, and experts, which fewer ranks
    // hold.
    const auto& counts = parameters_;
    const auto share_of_experts = static_cast<double>(model.layers - front) / model.layers;
    const auto beside = static_cast<double>(counts.expert_layer - counts.expert * model.experts);
    const auto layer = (1 - share_of_experts) * static_cast<double>(counts.dense_layer) +
                       (model.experts > 0 ? share_of_experts * beside : 0);
    const auto vocabulary =
        static_cast<double>(counts.embedding) / tp * (layout.pp > 1 || model.tied ? 1 : 2);
    const auto shared = layer * most / tp + vocabulary;
    const auto experts = model.experts == 0 ? 0.0
                                            : static_cast<double>(counts.expert) * model.experts / layout.ep *
                                                  most * share_of_experts;
    const auto replicas = static_cast<double>(layout.dp) * layout.cp;
    const auto copies = std::max(1.0, std::floor(tp * replicas / layout.ep));  // copies of an expert
    const auto shards = static_cast<double>(layout.shards());
    const auto local = tp < node ? std::max(1.0, std::min(replicas, std::floor(node / tp))) : 1.0;
    const auto wire = stack.gradient_bytes;
    auto held = layout.zero > 0 ? shards : 1.0;  // the ranks that share the optimizer's state
    if (layout.zero == 3) {
        auto beside_compute =
            micro_batches * rates.ring(2 * 2 * shared + wire * shared, shards, std::min(local, shards), 0);
        beside_compute += micro_batches * (2 * rates.ring(2 * experts, copies, 1, stack.hop) +
                                           rates.ring(wire * experts, copies, 1, stack.hop));
        if (shards < replicas)
            beside_compute += 2 * rates.ring(wire * shared / shards, replicas / shards, 1, stack.hop);
        step.dp = rates.exposed(beside_compute, body) + micro_batches * 3 * most * stack.hop * (shards - 1);
    } else if (layout.zero == 2) {
        const auto beside_compute = micro_batches * rates.ring(wire * shared, replicas, local, 0) +
                                    rates.ring(2 * shared, replicas, local, 0);
        step.dp = rates.exposed(beside_compute, body) + micro_batches * 2 * most * stack.hop * (replicas - 1);
        held = replicas;
    } else {
        auto reduce = rates.ring(wire * shared, replicas, local, stack.hop);
        reduce = layout.zero == 0
                     ? 2 * reduce
                     : reduce + rates.ring(2 * shared, shards, std::min(local, shards), stack.hop) +
                           (layout.zero_group > 0 ? reduce : 0);
        reduce +=
            rates.ring(wire * experts, copies, 1, stack.hop) + rates.ring(2 * experts, copies, 1, stack.hop);
        if (stack.overlaps) reduce = rates.exposed(reduce, body);
        step.dp = reduce + stack.shard_latency * std::max(0.0, held - std::floor(node / tp));
    }
    step.dp *= c.dp;
    step.optimizer = c.optimizer * c.optimizer_bytes *
                     (shared / held + experts / (layout.zero > 0 ? copies : 1.0)) / rates.memory;

    const auto devices = static_cast<double>(layout.tp) * layout.cp * layout.pp * layout.dp;
    const auto factor = stack.scale * (1 + c.stragglers * std::log2(std::max(1.0, devices / node)));
    for (auto* one : {&step.compute, &step.attention, &step.tp, &step.cp, &step.ep, &step.dp, &step.pp,
                      &step.bubble, &step.head, &step.optimizer}) {
        *one *= factor;
        step.seconds += *one;
    }
    step.low = step.seconds / (1 + c.interval);
    step.high = step.seconds / (1 - c.interval);
    return step;
}

Step step(const Job& job, const Layout& layout) { return Steps(job).step(layout); }

}  // namespace rankmesh::plan
