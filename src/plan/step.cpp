// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/step.hpp>

#include <cmath>
#include <utility>

#include "plan/rates.hpp"

namespace rankmesh::plan {

namespace of_step {

/// The work of a layer. Communication and memory-bound operations take as long in each pass.
struct Work {
    PassSeconds linear = {};  ///< matrix products
    double between = 0;       ///< memory-bound operations; the backward pass has twice as many
    double tp = 0;
    double ep = 0;
    double launch = 0;  ///< least seconds of the forward pass, in which the host launches experts
};

struct OneLayer {
    const Job& job;
    const Layout& layout;
    const Layer& kind;
    const Constants& c;
    Rates rates = Rates(job, c);
    LayerOnDevice on = LayerOnDevice(job, layout, kind);
    double tp = layout.tp;
    double node = job.machine.node;
    PassSeconds attention = kind.heads > 0 ? core() : PassSeconds{};

    Pieces::OfLayer pieces() const { return timed(kind.experts == 0 ? dense() : experts()); }

    PassSeconds core() const {
        const auto sequence = static_cast<double>(job.sequence);
        const auto sequences = static_cast<double>(layout.micro_batch);
        auto core = PassSeconds{};
        if (kind.head_dim == 0) {
            // A state alone.
        } else if (job.stack.attention == Attention::unfused) {
            const auto scores = sequences * on.heads * sequence * sequence;
            const auto rate = rates.dense * (kind.head_dim % 8 == 0 ? c.batched : c.unaligned);
            core.forward =
                2 * scores * (on.head + on.value) / rate + c.score_bytes / 3 * scores / rates.memory;
            core.backward = 2 * core.forward;
        } else {
            const auto recent = job.machine.device.fp8_rate > 0 ? 1 : 0;
            const auto efficiency = job.stack.attention == Attention::early_flash ? c.early_flash[recent]
                                    : job.stack.attention == Attention::flash     ? c.flash[recent]
                                                                                  : c.newest[recent];
            // The share of all pairs of a token and an earlier one that the window holds.
            const auto near = kind.window > 0 ? std::min(1.0, kind.window / sequence) : 1.0;
            const auto operations = sequences * on.heads * (sequence / layout.cp) * sequence *
                                    (on.head + kind.rope_dim + on.value) * near * (2 - near);
            core.forward = operations / (efficiency * sequence / (sequence + c.half) * rates.dense);
            core.backward = c.flash_backward * core.forward;
        }
        // Each token updates the state and reads it (Dao and Gu, arXiv 2405.21060).
        const auto state = sequences * sequence / layout.cp * 4 * static_cast<double>(kind.state) / tp /
                           (c.batched * rates.dense);
        core += {state, 2 * state};
        return core;
    }

    PassSeconds latent() const {
        auto up = PassSeconds{};
        if (kind.kv_rank == 0) return up;
        const auto from = kind.q_rank > 0 ? kind.q_rank : on.hidden;
        up += rates.layer(on.tokens, on.heads * (on.head + kind.rope_dim), from);
        up += rates.layer(on.tokens, on.heads * (on.head + on.value), kind.kv_rank);
        return up;
    }

    PassSeconds projections() const {
        auto all = PassSeconds{};
        if (kind.weights > 0)
            all += rates.layer(on.tokens, static_cast<double>(kind.weights) / on.hidden / tp, on.hidden);
        if (kind.kv_rank > 0) {
            all += rates.layer(on.tokens, kind.q_rank + kind.kv_rank + kind.rope_dim, on.hidden);
            all += latent();
        } else if (kind.head_dim > 0) {
            all += rates.layer(on.tokens,
                               (kind.gate ? 2 : 1) * on.heads * on.head + on.kv_heads * (on.head + on.value),
                               on.hidden);
        }
        if (kind.head_dim > 0) all += rates.layer(on.tokens, on.hidden, on.heads * on.value);
        return all;
    }

    /// Returns the seconds of a feed-forward network of `tokens` on `count` experts, or of one.
    PassSeconds feed_forward(double tokens, double width, double count = 1) const {
        auto both = rates.layer(tokens, (kind.matrices() - 1) * width, on.hidden, count);
        both += rates.layer(tokens, on.hidden, width, count);
        return both;
    }

    /// Returns the bytes that memory-bound operations of attention and norms move.
    double bytes_between() const {
        const auto state = 2 * on.tokens * on.hidden * on.split * c.norms * on.parts;
        return state + 4 * on.tokens *
                           (static_cast<double>(kind.weights) / on.hidden / tp + on.heads * on.head +
                            on.kv_heads * (on.head + on.value));
    }
    double bytes_of_width(double tokens, double width) const { return 2 * tokens * width * kind.matrices(); }
    double seconds_of_bytes(double bytes) const {
        return bytes * (c.elementwise * job.stack.elementwise / rates.memory);
    }

    /// Tensor parallelism passes the hidden state around the ring four times per pass (Korthikanti et al.,
    /// arXiv 2205.05198), twice for each part of a layer.
    double tp_seconds() const {
        return on.parts * c.tp * 4 *
               rates.ring(2 * on.tokens * on.hidden, tp, std::min(tp, node), job.stack.hop) *
               (1 - job.stack.tp_hidden);
    }

    PassSeconds cp_seconds() const {
        if (layout.cp == 1 || kind.head_dim == 0) return {};
        const auto cp = static_cast<double>(layout.cp);
        const auto local = std::max(1.0, std::min(cp, std::floor(node / tp)));
        const auto width = kind.kv_rank > 0 ? on.heads * (on.head + on.value + kind.rope_dim)
                                            : on.kv_heads * (on.head + on.value);
        const auto pass = rates.beside(
            2 * static_cast<double>(layout.micro_batch) * static_cast<double>(job.sequence) * width, cp,
            local, job.stack.hop);
        return {c.cp * rates.exposed(pass, attention.forward),
                c.cp * rates.exposed(2 * pass, attention.backward)};
    }

    Work dense() const {
        auto work = Work{.linear = projections(), .tp = tp_seconds()};
        if (kind.ffn > 0) work.linear += feed_forward(on.tokens, kind.ffn / tp);
        work.between = seconds_of_bytes(bytes_between() + bytes_of_width(on.tokens, kind.ffn / tp));
        return work;
    }

    /// All experts are taken to be equally busy.
    Work experts() const {
        const auto etp = c.expert_tp > 0 ? static_cast<double>(layout.etp) : 1.0;
        const auto received = on.tokens * kind.top_k / tp * etp;
        const auto width = kind.expert_ffn / etp;
        const auto local = kind.experts / static_cast<double>(layout.ep);
        auto work = Work{.linear = projections(), .launch = job.stack.expert_launch};
        work.linear += feed_forward(received / local, width, local);
        if (kind.shared_ffn > 0) work.linear += feed_forward(on.tokens, kind.shared_ffn / tp);
        work.between =
            seconds_of_bytes(bytes_between() + bytes_of_width(on.tokens, kind.shared_ffn / tp) +
                             bytes_of_width(received, width) + 2 * received * on.hidden * c.dispatch);
        work.ep = layout.ep > 1 ? all_to_all(etp) : 0;
        work.ep += c.ep * 2 * rates.ring(2 * received * on.hidden, etp, std::min(etp, node), job.stack.hop);
        // Without a shared expert only attention, half of the layer, communicates over tp.
        work.tp = tp_seconds() * (kind.shared_ffn > 0 ? 1 : kind.heads > 0 ? 0.5 : 0);
        return work;
    }

    /// Returns the seconds in which tokens go to their experts and come back.
    double all_to_all(double etp) const {
        const auto ep = static_cast<double>(layout.ep);
        const auto local = std::min(ep, std::max(1.0, std::floor(node / etp)));
        const auto element = layout.fp8_activations ? 1.5 : 2.0;  // dispatch in FP8, combine in bfloat16
        // Tokens that a device sends to `places` of equal experts: one for each place, or for each expert.
        const auto once = job.stack.tokens_once || layout.dispatch_once;
        const auto copies = [&](double places) {
            return once ? places * (1 - std::pow(1 - 1 / places, kind.top_k))
                        : static_cast<double>(kind.top_k);
        };
        const auto bytes_of_one = element * on.tokens / tp * on.hidden;
        auto pass = bytes_of_one * copies(ep) * (ep - 1) / ep / rates.scale_up;
        if (ep > local) {
            const auto nodes = ep / local;
            auto leave = copies(nodes);
            if (once && job.model.most_nodes > 0) leave = std::min<double>(leave, job.model.most_nodes);
            pass = std::max(pass, bytes_of_one * leave * (nodes - 1) / nodes / rates.scale_out);
        }
        return c.ep * 2 * (pass + c.all_to_all);
    }

    /// Returns the seconds of each part that are computed again in the backward pass.
    Pieces::Parts repeated(const Work& work, double cp) const {
        const auto recompute = layout.recompute;
        if (recompute == Recompute::selective) return {.attention = attention.forward};
        if (recompute == Recompute::elementwise) return {.compute = work.between + latent().forward};
        if (recompute == Recompute::operations) return {.compute = work.linear.forward / 2 + work.between};
        if (recompute == Recompute::none) return {};
        return {work.linear.forward + work.between + c.launch, attention.forward, work.tp, cp, work.ep};
    }

    /// Returns the visible part of all-to-all, which may run beside the compute of another micro-batch.
    double shown(double seconds, double beside) const {
        if (!layout.overlap_experts || seconds <= 0) return seconds;
        return std::max(0.0, seconds - beside) + c.expert_overlap * std::min(seconds, beside);
    }

    Pieces::OfLayer timed(const Work& work) const {
        const auto cp = cp_seconds();
        const auto forward =
            work.linear.forward + work.between + attention.forward + work.tp + cp.forward + c.launch;
        const auto backward =
            work.linear.backward + 2 * work.between + attention.backward + work.tp + cp.backward + c.launch;
        const auto compute = work.linear.forward + work.linear.backward + 3 * work.between + 2 * c.launch;
        const auto sent = shown(2 * work.ep, compute + attention.forward + attention.backward);
        const auto waits =
            layout.overlap_experts
                ? std::max(0.0, (1 + c.expert_backward) * work.launch - forward - backward - sent)
                : std::max(0.0, work.launch - forward - work.ep) +
                      std::max(0.0, c.expert_backward * work.launch - backward - work.ep);
        auto one = Pieces::OfLayer{};
        auto& again = one.repeated;
        again = repeated(work, cp.forward);
        again.ep = shown(again.ep, again.compute + again.attention);
        again = {again.compute * c.recompute, again.attention * c.recompute, again.tp * c.recompute,
                 again.cp * c.recompute, again.ep * c.recompute};
        one.again = again.sum();
        one.compute = compute + waits + again.compute;
        one.attention = attention.forward + attention.backward + again.attention;
        one.tp = 2 * work.tp + again.tp;
        one.cp = cp.forward + cp.backward + again.cp;
        one.ep = sent + again.ep;
        return one;
    }
};

constexpr Constants fitted = {};

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
    if (layout.schedule == Schedule::one_f_one_b) return 1;
    // (pp - 1) (F + B - 2W): Qi et al., arXiv 2401.10241
    if (layout.schedule == Schedule::zero_bubble) return std::max(0.0, 1 - 2 * weights);
    // (pp / 2 - 1) (F&B + B - 3W): DeepSeek-V3, arXiv 2412.19437, table 2
    const auto backward = (1 - again) * 2 / 3 + again;
    return (layout.pp / 2.0 - 1) / (layout.pp - 1) * std::max(0.0, 1 + backward - 3 * weights);
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

Pieces Steps::pieces(const Layout& layout) const {
    const auto& c = *constants_;
    const auto& model = job_.model;
    const auto rates = Rates(job_, c);
    const auto hidden = static_cast<double>(model.hidden);
    const auto tp = static_cast<double>(layout.tp);
    const auto tokens = layout.micro_batch * static_cast<double>(job_.sequence) / layout.cp;
    const auto node = static_cast<double>(job_.machine.node);
    auto pieces = Pieces{};
    for (const auto& kind : model.kinds)
        pieces.kinds.push_back(of_step::OneLayer{job_, layout, kind, c}.pieces());
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

Step Steps::step(const Pieces& pieces, const Layout& layout) const {
    const auto& c = *constants_;
    const auto& model = job_.model;
    const auto& stack = job_.stack;
    const auto rates = Rates(job_, c);
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
    for (const auto& part : step_parts) {
        step.*part.seconds *= factor;
        step.seconds += step.*part.seconds;
    }
    const auto [interval, beyond] = of_step::interval(job_, layout, c);
    step.low = step.seconds / (1 + interval);
    step.high = step.seconds / (1 - interval);
    step.beyond = beyond;
    return step;
}

Step step(const Job& job, const Layout& layout) { return Steps(job).step(layout); }

}  // namespace rankmesh::plan
