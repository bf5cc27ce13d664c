// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/advice.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <rankmesh/core/detail/number.hpp>

#include "plan/bounds.hpp"

namespace rankmesh::plan {

namespace of_advice {

bool is_legal(const Job& job, const Layout& layout) {
    return fault_of([&] { check(layout, job.model, job.batch, job.sequence); }).empty();
}

/// Returns the layouts that differ in one setting, and in dp if dp must change to compensate.
std::vector<Layout> changes_of(const Job& job, const Layout& layout) {
    auto all = std::vector<Layout>{};
    const auto add = [&](auto change) {
        auto other = layout;
        change(other);
        if (!(other == layout) && other.devices() == layout.devices() && is_legal(job, other))
            all.push_back(other);
    };
    for (int zero = layout.zero + 1; zero <= 3; ++zero) add([&](Layout& l) { l.zero = zero; });
    if (layout.recompute == Recompute::none) add([](Layout& l) { l.recompute = Recompute::selective; });
    if (layout.recompute != Recompute::full || layout.recompute_layers > 0) {
        add([](Layout& l) { l.recompute = Recompute::full, l.recompute_layers = 0; });
        const auto largest = stage_layers(layout, job.model.layers(), 0);
        for (int layers = layout.recompute_layers + 1; layers < largest; ++layers)
            add([&](Layout& l) { l.recompute = Recompute::full, l.recompute_layers = layers; });
    }
    for (int micro = layout.micro_batch / 2; micro > 0; micro /= 2)
        add([&](Layout& l) { l.micro_batch = micro; });
    for (int vpp = layout.vpp - 1; vpp > 0; --vpp) add([&](Layout& l) { l.vpp = vpp; });
    for (const auto factor : divisors(layout.dp)) {
        add([&](Layout& l) { l.dp /= factor, l.tp *= factor, l.sequence_parallel = true; });
        add([&](Layout& l) { l.dp /= factor, l.pp *= factor; });
        add([&](Layout& l) { l.dp /= factor, l.cp *= factor; });
    }
    for (const auto ep : divisors(std::max(1, job.model.experts())))
        if (ep > layout.ep) add([&](Layout& l) { l.ep = ep; });
    if (!layout.sequence_parallel && layout.tp > 1) add([](Layout& l) { l.sequence_parallel = true; });
    if (layout.zero_group > 0) add([](Layout& l) { l.zero_group = 0; });
    if (layout.gradient_bytes != 2) add([](Layout& l) { l.gradient_bytes = 2; });
    add([](Layout& l) { l.bf16_moments = true; });
    if (job.precision == Precision::fp8) add([](Layout& l) { l.fp8_activations = true; });
    for (const auto percent : {25, 50, 75, 100})
        if (percent > layout.offload) add([&](Layout& l) { l.offload = percent; });
    return all;
}

double number(std::string_view text) {
    const auto value = detail::number_in<double>(text);
    return value && std::isfinite(*value) ? *value : 0;
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const auto middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : std::sqrt(values[middle - 1] * values[middle]);
}

}  // namespace of_advice

std::vector<Help> what_would_help(const Job& job, const Found& found, const Options& options) {
    if (found.best.empty()) return {};
    const auto& best = found.best.front();
    auto all = std::vector<Help>{};
    const auto add = [&](std::string what, double seconds, double work, std::string how = {}) {
        all.push_back({std::move(what), best.step.seconds * work / seconds - 1, std::move(how)});
    };
    const auto with_bandwidth = [&](double between, double inside) {
        auto other = job;
        other.machine.scale_out *= between;
        other.machine.scale_up *= inside;
        return step(other, best.layout).seconds;
    };
    const auto has_nodes = job.devices > job.machine.node;
    if (has_nodes) add("twice the bandwidth between nodes", with_bandwidth(2, 1), 1);
    add("twice the bandwidth inside a node", with_bandwidth(1, 2), 1);
    if (has_nodes) {  // a ring over several nodes may be bound by both
        const auto apart = all[0].gain + all[1].gain;
        add("twice both bandwidths", with_bandwidth(2, 2), 1);
        if (all.back().gain <= 1.01 * apart) all.pop_back();
    }
    if (job.batch <= std::numeric_limits<std::int64_t>::max() / 2) {
        auto other = job;
        other.batch *= 2;
        if (of_advice::is_legal(other, best.layout))
            add("twice the batch", step(other, best.layout).seconds, 2);
    }
    auto roomy = options;
    roomy.count = 1;
    roomy.capacity = std::numeric_limits<std::int64_t>::max();
    if (const auto without = search(job, roomy).best;
        !without.empty() && !(without.front().layout == best.layout)) {
        const auto& one = without.front();
        add("memory without limit", one.step.seconds, 1, to_string(one.layout));
    }
    std::erase_if(all, [](const Help& help) { return help.gain < 0.001; });
    std::ranges::stable_sort(all, std::greater<>{}, &Help::gain);
    return all;
}

std::optional<Planned> fits_with(const Job& job, const Options& options) {
    auto more = options;
    more.count = 1;
    more.progress = {};
    for (const auto* text : {"grads=bf16", "moments=bf16", "acts=fp8", "offload=50", "offload=100"}) {
        if (std::string_view(text) == "acts=fp8" && job.precision != Precision::fp8) continue;
        fix(more, text);
        if (auto found = search(job, more); !found.best.empty()) return found.best.front();
    }
    return std::nullopt;
}

const StepPart& what_binds(const Step& step) {
    return *std::ranges::max_element(step_parts.begin() + 2, step_parts.end(), {},
                                     [&](const StepPart& part) { return step.*part.seconds; });
}

Explained explain(const Job& job, const Layout& layout) {
    check(job);
    if (layout.devices() != job.devices)
        throw UsageError(cat("the layout ", to_string(layout), " has ", layout.devices(), " ranks, the job ",
                             job.devices, " devices"));
    check(layout, job.model, job.batch, job.sequence);
    auto explained = Explained{.planned = {layout, step(job, layout), memory(job, layout)},
                               .capacity = capacity(job.machine.device)};
    if (explained.fit() == Fit::fits) return explained;
    auto& best = explained.change;
    auto across = std::optional<Planned>{};  // with tensor parallelism over more nodes
    const auto most_tp = std::max(layout.tp, job.machine.node);
    const auto consider = [&](const Layout& other) {
        const auto needs = memory(job, other);
        if (fit(needs.estimate, explained.capacity) != Fit::fits) return;
        const auto takes = step(job, other);
        auto& kept = other.tp > most_tp ? across : best;
        if (!kept || takes.seconds < kept->step.seconds) kept = Planned{other, takes, needs};
    };
    const auto one = of_advice::changes_of(job, layout);
    for (const auto& other : one) consider(other);
    if (!best)
        for (const auto& other : one)
            if (other.tp <= most_tp)
                for (const auto& two : of_advice::changes_of(job, other)) consider(two);
    if (!best) best = across;
    return explained;
}

std::vector<Measured> read_measured(std::string_view text, std::string_view file) {
    auto all = std::vector<Measured>{};
    auto number = 0;
    for (auto rest = text; !rest.empty();) {
        const auto line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        ++number;
        auto words = std::vector<std::string_view>{};
        for_each_word(line, [&](std::string_view word) { words.push_back(word); });
        if (words.empty() || words.front().starts_with('#')) continue;
        const auto fail = [&](std::string_view why) {
            throw UsageError(cat(file, " line ", number, ": ", why));
        };
        auto one = Measured{.seconds = of_advice::number(words.front())};
        if (!(one.seconds > 0))
            fail(cat("begins with ", in_quotes(words.front()),
                     "; a line is the seconds of a step, more than 0, and a layout, such as 4.52 pp=4 dp=8 "
                     "tp=8 mbs=1 zero=1"));
        auto layout = std::string{};
        for (const auto word : std::span(words).subspan(1)) {
            const auto is_batch = word.starts_with("batch=");
            if (!is_batch && !word.starts_with("seq=")) {
                layout += cat(layout.empty() ? "" : " ", word);
                continue;
            }
            const auto value = of_advice::number(name_and_value(word).second);
            if (!(value >= 1) || value != std::floor(value) || value > std::numeric_limits<int>::max())
                fail(cat("has ", in_quotes(word), "; it must be a whole number of 1 or more"));
            (is_batch ? one.batch : one.sequence) = static_cast<std::int64_t>(value);
        }
        const auto fault = fault_of([&] { one.layout = read_layout(layout); });
        if (!fault.empty()) fail(fault);
        all.push_back(one);
    }
    if (all.empty())
        throw UsageError(
            cat(file, " has no measured step; write one a line, such as 4.52 pp=4 dp=8 tp=8 mbs=1 zero=1"));
    return all;
}

Calibration calibrate(Job& job, const std::vector<Measured>& measured) {
    if (measured.empty()) throw UsageError("there is no measured step to calibrate by");
    auto ratios = std::vector<double>{};
    for (const auto& one : measured) {
        auto then = job;
        then.devices = one.layout.devices();
        if (one.batch > 0) then.batch = one.batch;
        if (one.sequence > 0) then.sequence = one.sequence;
        const auto fault = fault_of([&] {
            check(then);
            check(one.layout, then.model, then.batch, then.sequence);
        });
        if (!fault.empty())
            throw UsageError(cat("the measured step of ", to_string(one.layout), ": ", fault));
        ratios.push_back(one.seconds / step(then, one.layout).seconds);
    }
    auto found = Calibration{.steps = static_cast<int>(ratios.size()), .factor = of_advice::median(ratios)};
    for (std::size_t i = 0; i < ratios.size(); ++i) {
        auto others = ratios;
        if (ratios.size() > 1) others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        found.before += std::abs(1 / ratios[i] - 1) / found.steps;
        found.after += std::abs(of_advice::median(others) / ratios[i] - 1) / found.steps;
    }
    job.stack.scale *= found.factor;
    return found;
}

}  // namespace rankmesh::plan
