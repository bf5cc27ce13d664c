// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include <rankmesh/plan/memory.hpp>
#include <rankmesh/plan/step.hpp>

namespace rankmesh::plan::score {

namespace {

constexpr auto gib = 1073741824.0;

template <class... Values>
void line(std::string& out, const char* format, Values... values) {
    auto text = std::array<char, 512>{};
    std::snprintf(text.data(), text.size(), format, values...);
    out += text.data();
    out += '\n';
}

Errors errors_of(std::vector<double> errors) {
    auto found = Errors{.rows = static_cast<int>(errors.size())};
    if (errors.empty()) return found;
    for (auto& error : errors) {
        error = 100 * std::abs(error);
        found.mean += error / static_cast<double>(errors.size());
        found.within_10 += (error < 10 ? 100.0 : 0.0) / static_cast<double>(errors.size());
    }
    std::ranges::sort(errors);
    const auto half = errors.size() / 2;
    found.median = errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
    found.most = errors.back();
    return found;
}

double step_error(const Scored& one) { return one.seconds / *one.row->seconds - 1; }

/// Rows that ran the same job in different layouts.
struct Ranking {
    int pairs = 0;
    int right = 0;
    int groups = 0;
    double regret = 0;  ///< percent, the sum over groups
};

Ranking ranking(std::span<const Scored> scored) {
    auto groups = std::vector<std::vector<const Scored*>>{};
    for (const auto& one : scored) {
        if (!one.row->complete || !one.row->seconds) continue;
        const auto same_job = [&](const std::vector<const Scored*>& group) {
            const auto& a = group.front()->row->job;
            const auto& b = one.row->job;
            return group.front()->row->family == one.row->family && a.model == b.model &&
                   a.machine == b.machine && a.stack == b.stack && a.precision == b.precision &&
                   a.devices == b.devices && a.sequence == b.sequence && a.batch == b.batch;
        };
        const auto found = std::ranges::find_if(groups, same_job);
        if (found == groups.end())
            groups.push_back({&one});
        else if (std::ranges::none_of(
                     *found, [&](const Scored* other) { return other->row->layout == one.row->layout; }))
            found->push_back(&one);
    }
    auto found = Ranking{};
    for (const auto& group : groups) {
        if (group.size() < 2) continue;
        ++found.groups;
        auto best = *group.front()->row->seconds;
        const auto* chosen = group.front();
        for (std::size_t i = 0; i < group.size(); ++i) {
            best = std::min(best, *group[i]->row->seconds);
            if (group[i]->seconds < chosen->seconds) chosen = group[i];
            for (std::size_t j = 0; j < i; ++j) {
                const auto a = *group[i]->row->seconds, b = *group[j]->row->seconds;
                if (std::max(a, b) < 1.03 * std::min(a, b)) continue;
                ++found.pairs;
                found.right += (a < b) == (group[i]->seconds < group[j]->seconds) ? 1 : 0;
            }
        }
        found.regret += 100 * (*chosen->row->seconds / best - 1);
    }
    return found;
}

}  // namespace

std::vector<Scored> predict(std::span<const Row> rows, const Term* without) {
    auto scored = std::vector<Scored>{};
    for (const auto& row : rows) {
        auto constants = Constants{};
        auto job = row.job;
        if (without != nullptr) without->leave_out(constants, job);
        const auto step = Steps(job, constants).step(row.layout);
        auto one = Scored{.row = &row, .seconds = step.seconds};
        one.inside = row.seconds && step.low <= *row.seconds && *row.seconds <= step.high;
        const auto needed = [&](const Layout& layout, bool allocated) {
            const auto memory = plan::memory(job, layout);
            return (static_cast<double>(allocated ? memory.allocated : memory.estimate) -
                    row.offloaded * static_cast<double>(memory.activations)) /
                   gib;
        };
        one.memory = needed(row.layout, row.allocated);
        one.refused = needed(row.smallest, false) > static_cast<double>(capacity(job.machine.device)) / gib;
        scored.push_back(one);
    }
    return scored;
}

Errors step_errors(std::span<const Scored> scored) {
    auto errors = std::vector<double>{};
    for (const auto& one : scored)
        if (one.row->complete && one.row->seconds) errors.push_back(step_error(one));
    return errors_of(std::move(errors));
}

std::string report(std::span<const Scored> scored) {
    auto out = std::string{};
    auto families = std::map<std::pair<bool, std::string>, std::vector<double>>{};
    auto memories = std::map<std::pair<bool, std::string>, std::vector<double>>{};
    auto oom = 0, oom_refused = 0, ran = 0, ran_refused = 0, timed = 0, inside = 0;
    auto memory_errors = std::vector<double>{};
    for (const auto& one : scored) {
        const auto key = std::pair{!one.row->complete, one.row->family};
        if (one.row->seconds) families[key].push_back(step_error(one));
        timed += one.row->seconds ? 1 : 0;
        inside += one.inside ? 1 : 0;
        if (one.row->memory) {
            memories[key].push_back(one.memory / *one.row->memory - 1);
            if (one.row->complete) memory_errors.push_back(memories[key].back());
        }
        if (one.row->out_of_memory == true) {
            ++oom;
            oom_refused += one.refused ? 1 : 0;
        } else {
            ++ran;
            ran_refused += one.refused ? 1 : 0;
        }
    }
    const auto table = [&](const char* title, const auto& of) {
        line(out, "%-32s %5s %5s %7s %7s %7s %7s", title, "grade", "rows", "mean %", "median", "most",
             "bias");
        for (const auto& [key, errors] : of) {
            const auto found = errors_of(errors);
            auto middle = errors;
            std::ranges::nth_element(middle, middle.begin() + static_cast<std::ptrdiff_t>(middle.size() / 2));
            line(out, "%-32.32s %5s %5d %7.2f %7.2f %7.2f %+7.2f", key.second.c_str(), key.first ? "B" : "A",
                 found.rows, found.mean, found.median, found.most, 100 * middle[middle.size() / 2]);
        }
        out += '\n';
    };
    table("step time", families);
    table("memory", memories);

    const auto steps = step_errors(scored);
    auto of_families = 0.0;
    auto counted = 0;
    for (const auto& [key, errors] : families)
        if (!key.first) {
            of_families += errors_of(errors).mean;
            ++counted;
        }
    const auto memory = errors_of(memory_errors);
    const auto order = ranking(scored);
    const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0.0; };
    line(out,
         "step time, grade A: %d rows, mean %.2f %%, median %.2f %%, most %.2f %%, %.1f %% within 10 %%, "
         "mean of %d family means %.2f %%",
         steps.rows, steps.mean, steps.median, steps.most, steps.within_10, counted,
         share(of_families, counted));
    line(out, "ranges: %d of %d step times lie in low..high", inside, timed);
    line(out, "memory, grade A: %d rows, mean %.2f %%, median %.2f %%, most %.2f %%", memory.rows,
         memory.mean, memory.median, memory.most);
    line(out, "refusals: %d of %d rows that ran out of memory, %d of %d that did not", oom_refused, oom,
         ran_refused, ran);
    line(out,
         "ranking, grade A: %d of %d pairs at least 3 %% apart ordered right, regret of the first choice "
         "%.2f %% in %d groups",
         order.right, order.pairs, share(order.regret, order.groups), order.groups);
    line(out,
         "{\"step_mean\":%.4f,\"step_median\":%.4f,\"step_within_10\":%.4f,\"mem_mean\":%.4f,\"oom_refused\":"
         "%d,\"oom_total\":%d,\"false_refusals\":%.4f,"
         "\"pairs_right\":%.4f,\"regret_mean\":%.4f}",
         steps.mean, steps.median, steps.within_10, memory.mean, oom_refused, oom,
         100 * share(ran_refused, ran), 100 * share(order.right, order.pairs),
         share(order.regret, order.groups));
    return out;
}

std::string listing(std::span<const Scored> scored) {
    auto out = std::string{};
    line(out, "%-10s %-20s %5s %10s %10s %8s %8s %8s", "row", "source", "grade", "seconds", "predicted",
         "GiB", "predicted", "fits");
    for (const auto& one : scored)
        line(out, "%-10.10s %-20.20s %5s %10.4g %10.4g %8.4g %8.4g %8s", one.row->name.c_str(),
             one.row->family.c_str(), one.row->complete ? "A" : "B", one.row->seconds.value_or(0),
             one.seconds, one.row->memory.value_or(0), one.memory, one.refused ? "no" : "yes");
    return out + '\n';
}

std::string ablation(std::span<const Row> rows) {
    auto out = std::string{};
    const auto all = step_errors(predict(rows));
    line(out, "%-14s %-44s %7s %7s %9s", "left out", "", "mean %", "median", "adds");
    line(out, "%-14s %-44s %7.2f %7.2f", "nothing", "", all.mean, all.median);
    for (const auto& term : terms()) {
        const auto left = step_errors(predict(rows, &term));
        line(out, "%-14s %-44s %7.2f %7.2f %+9.2f", std::string(term.name).c_str(),
             std::string(term.what).c_str(), left.mean, left.median, left.mean - all.mean);
    }
    return out;
}

}  // namespace rankmesh::plan::score
