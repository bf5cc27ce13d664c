// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/step.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "plan/rates.hpp"
#include "plan/stages.hpp"

namespace rankmesh::plan {

namespace of_step {

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
