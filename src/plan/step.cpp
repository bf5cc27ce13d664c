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
    Stage worst = {};
    double less = 0;  ///< share of the layers of the slowest stage that are not computed again
    double most = 0;  ///< layers that a device holds
};

Busy busy(const Pieces& pieces, const Layout& layout, const Model& model, double send) {
    const auto saved = [&](double layers) {
        return layout.recompute == Recompute::full && layout.recompute_layers > 0
                   ? 1 - std::min<double>(layout.recompute_layers, layers) / std::max(1.0, layers)
                   : 0.0;
    };
    auto found = Busy{};
    const auto dual = layout.schedule == Schedule::dual_pipe;
    const auto stages = stages_of(layout, model);
    for (int stage = 0; stage < layout.pp; ++stage) {
        auto here = stages[static_cast<std::size_t>(stage)];
        if (dual) here += stages[static_cast<std::size_t>(layout.pp - 1 - stage)];
        found.most = std::max(found.most, here.dense + here.expert);
        // Half of the micro-batches run through the mirrored stage.
        if (dual) here = {here.dense / 2, here.expert / 2, here.first / 2, here.last / 2};
        const auto less = saved(here.dense + here.expert);
        const auto seconds = send + here.dense * (pieces.dense.sum() - less * pieces.dense.again) +
                             here.expert * (pieces.expert.sum() - less * pieces.expert.again) +
                             here.first * pieces.embedding + here.last * pieces.head;
        found.sum += seconds;
        if (seconds > found.slowest) found.slowest = seconds, found.worst = here, found.less = less;
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
    const auto front = model.experts == 0 ? model.layers : model.dense_layers;
    // Parameters of a device: `shared` ones, which all of dp and cp hold, and experts, which fewer ranks
    // hold.
    const auto share_of_experts = static_cast<double>(model.layers - front) / model.layers;
    const auto beside = static_cast<double>(counts.expert_layer - counts.expert * model.experts);
    const auto layer = (1 - share_of_experts) * static_cast<double>(counts.dense_layer) +
                       (model.experts > 0 ? share_of_experts * beside : 0);
    const auto vocabulary =
        static_cast<double>(counts.embedding) / tp * (layout.pp > 1 || model.tied ? 1 : 2);
    const auto shared = layer * most / tp + vocabulary;
    const auto experts = model.experts == 0 ? 0.0
                                            : static_cast<double>(counts.expert) * model.experts / layout.ep /
                                                  layout.etp * most * share_of_experts;
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
    if (job.model.experts > 0) error = std::max(error, c.interval_experts);
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
    auto up = of_step::Both{};  // from the latent state
    if (model.kv_rank > 0) {
        projections += rates.layer(tokens, model.q_rank + model.kv_rank + model.rope_dim, hidden);
        up += rates.layer(tokens, heads * (head + model.rope_dim), model.q_rank > 0 ? model.q_rank : hidden);
        up += rates.layer(tokens, heads * 2 * head, model.kv_rank);
        projections += up;
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
        const auto pass = rates.beside(2 * sequences * sequence * width, cp, local, stack.hop);
        cp_seconds = {c.cp * rates.exposed(pass, attention.forward),
                      c.cp * rates.exposed(2 * pass, attention.backward)};
    }

    // Returns one layer with the products `linear`, `between_seconds` of memory-bound operations and an
    // all-to-all of `ep_pass` seconds per pass.
    const auto layer = [&](const of_step::Both& linear, double between_seconds, double tp_pass,
                           double ep_pass, double floor) {
        auto one = Pieces::Layer{};
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

    auto pieces = Pieces{};
    if (model.experts == 0 || model.dense_layers > 0) {
        auto linear = projections;
        linear += rates.layer(tokens, (matrices - 1) * model.ffn / tp, hidden);
        linear += rates.layer(tokens, hidden, model.ffn / tp);
        pieces.dense = layer(linear, elementwise, tp_seconds, 0, 0);
    }
    if (model.experts > 0) {
        // Tokens of a device if all experts are equally busy: those that it sends, and those at its experts.
        const auto etp = c.expert_tp > 0 ? static_cast<double>(layout.etp) : 1.0;
        const auto sent = tokens * model.top_k / tp;
        const auto received = sent * etp;
        const auto width = model.expert_ffn / etp;
        const auto local_experts = model.experts / ep;
        auto linear = projections;
        linear += rates.layer(received / local_experts, (matrices - 1) * width, hidden, local_experts);
        linear += rates.layer(received / local_experts, hidden, width, local_experts);
        if (model.shared_ffn > 0) {
            linear += rates.layer(tokens, (matrices - 1) * model.shared_ffn / tp, hidden);
            linear += rates.layer(tokens, hidden, model.shared_ffn / tp);
        }
        const auto bytes = between + feed_forward(model.shared_ffn / tp) + 2 * received * width * matrices +
                           2 * received * hidden * c.dispatch;
        auto pass = 0.0;
        if (layout.ep > 1) {
            const auto local = std::min(ep, std::max(1.0, std::floor(node / etp)));
            const auto element = layout.fp8_activations ? 1.5 : 2.0;  // dispatch in FP8, combine in bfloat16
            // Tokens that a device sends to `places` of equal experts: one for each place, or for each
            // expert.
            const auto once = stack.tokens_once || layout.dispatch_once;
            const auto copies = [&](double places) {
                return once ? places * (1 - std::pow(1 - 1 / places, model.top_k))
                            : static_cast<double>(model.top_k);
            };
            const auto bytes_of_one = element * tokens / tp * hidden;
            pass = bytes_of_one * copies(ep) * (ep - 1) / ep / rates.scale_up;
            if (ep > local) {
                const auto nodes = ep / local;
                auto leave = copies(nodes);
                if (once && model.most_nodes > 0) leave = std::min<double>(leave, model.most_nodes);
                pass = std::max(pass, bytes_of_one * leave * (nodes - 1) / nodes / rates.scale_out);
            }
            pass = c.ep * 2 * (pass + c.all_to_all);
        }
        pass += c.ep * 2 * rates.ring(2 * received * hidden, etp, std::min(etp, node), stack.hop);
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
    const auto micro_batches = of_step::micro_batches(job_, layout);

    auto send = 0.0;
    if (layout.pp > 1) {
        const auto stage = tp * layout.cp * layout.dp;
        const auto crosses = stage * layout.pp > node && stage >= node;
        send = c.pp * 2 *
               (2 * tokens * model.hidden / tp / (crosses ? rates.scale_out : rates.scale_up) + c.send) *
               layout.vpp;
    }

    const auto busy = of_step::busy(pieces, layout, model, send);
    const auto& [slowest, sum, worst, less, most] = busy;
    const auto [dense, expert, on_first, on_last] = worst;
    auto step = Step{};
    const auto part = [&, dense = dense, expert = expert](double Pieces::Parts::*one) {
        return micro_batches * (dense * (pieces.dense.*one - less * pieces.dense.repeated.*one) +
                                expert * (pieces.expert.*one - less * pieces.expert.repeated.*one));
    };
    step.compute = part(&Pieces::Parts::compute);
    step.attention = part(&Pieces::Parts::attention);
    step.tp = part(&Pieces::Parts::tp);
    step.cp = part(&Pieces::Parts::cp);
    step.ep = part(&Pieces::Parts::ep);
    step.pp = micro_batches * send;
    step.head = micro_batches * (on_first * pieces.embedding + on_last * pieces.head);
    const auto body = micro_batches * slowest;
    const auto again = dense * (1 - less) * pieces.dense.again + expert * (1 - less) * pieces.expert.again;
    const auto weights = (dense * (pieces.dense.compute - pieces.dense.repeated.compute) +
                          expert * (pieces.expert.compute - pieces.expert.repeated.compute)) /
                         3;
    if (layout.pp > 1)
        step.bubble =
            c.bubble * (sum - slowest) / layout.vpp *
            (c.schedule > 0 ? of_step::bubble_share(layout, weights / slowest, again / slowest) : 1);
    if (layout.offload > 0) {
        const auto bytes = kept(job_, layout);
        const auto inputs = layout.recompute == Recompute::full ? 1 - less : 0.0;
        const auto away = (1 - inputs) * (dense * bytes.offloaded_dense + expert * bytes.offloaded_expert) +
                          inputs * (dense + expert) * bytes.offloaded_input;
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
