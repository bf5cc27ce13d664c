// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>

#include <rankmesh/plan/step.hpp>

namespace rankmesh::plan::score {

namespace {

template <double Constants::*value>
void constant(Constants& c, Job&, double to) {
    c.*value = to;
}

void sustained_of(Job& job, std::initializer_list<std::string_view> names, double to) {
    if (std::ranges::find(names, job.machine.device.name) != names.end()) job.machine.device.sustained = to;
}

void scale_of(Job& job, std::string_view name, double to) {
    if (job.stack.name == name) job.stack.scale = to;
}

/// Solves `a x = b` for a symmetric positive definite matrix.
std::vector<double> solved(std::vector<std::vector<double>> a, std::vector<double> b) {
    const auto n = b.size();
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t row = i + 1; row < n; ++row) {
            const auto factor = a[row][i] / a[i][i];
            for (std::size_t k = i; k < n; ++k) a[row][k] -= factor * a[i][k];
            b[row] -= factor * b[i];
        }
    for (auto i = n; i-- > 0;) {
        for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    return b;
}

/// Rows of grade A with a step time, and what each counts.
struct Problem {
    std::vector<const Row*> rows;
    std::vector<double> weights;

    explicit Problem(std::span<const Row> all) {
        auto of_family = std::map<std::string, int>{};
        for (const auto& row : all)
            if (row.complete && row.seconds) {
                rows.push_back(&row);
                ++of_family[row.family];
            }
        for (const auto* row : rows) weights.push_back(1 / std::sqrt(of_family[row->family]));
    }
};

constexpr auto small = 0.04;  // errors above count linearly

double residual(const Row& row, std::span<const double> values) {
    auto constants = Constants{};
    auto job = row.job;
    const auto all = parameters_to_fit();
    for (std::size_t i = 0; i < all.size(); ++i) all[i].set(constants, job, values[i]);
    return std::log(Steps(job, constants).step(row.layout).seconds / *row.seconds);
}

double loss(const Problem& problem, std::span<const double> values) {
    auto sum = 0.0;
    for (std::size_t i = 0; i < problem.rows.size(); ++i) {
        const auto error = residual(*problem.rows[i], values) / small;
        sum += problem.weights[i] * 2 * (std::sqrt(1 + error * error) - 1);
    }
    const auto all = parameters_to_fit();
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto away = std::log(values[i] / all[i].start) / all[i].spread;
        sum += away * away;
    }
    return sum;
}

/// The normal equations of one step of Gauss and Newton, in logarithms of the parameters.
struct Normal {
    std::vector<std::vector<double>> matrix;
    std::vector<double> right;

    Normal(const Problem& problem, std::span<const double> values) {
        const auto all = parameters_to_fit();
        const auto n = all.size();
        matrix.assign(n, std::vector<double>(n));
        right.assign(n, 0);
        for (std::size_t r = 0; r < problem.rows.size(); ++r) {
            const auto& row = *problem.rows[r];
            const auto error = residual(row, values) / small;
            const auto weight = problem.weights[r] / std::sqrt(1 + error * error);
            auto slope = std::vector<double>(n);
            for (std::size_t i = 0; i < n; ++i) {
                auto moved = std::vector<double>(values.begin(), values.end());
                moved[i] *= 1 + 1e-5;
                slope[i] = (residual(row, moved) / small - error) / 1e-5;
            }
            for (std::size_t i = 0; i < n; ++i) {
                if (slope[i] == 0) continue;
                right[i] -= weight * slope[i] * error;
                for (std::size_t k = 0; k < n; ++k) matrix[i][k] += weight * slope[i] * slope[k];
            }
        }
        for (std::size_t i = 0; i < n; ++i) {
            const auto square = all[i].spread * all[i].spread;
            matrix[i][i] += 1 / square;
            right[i] -= std::log(values[i] / all[i].start) / square;
        }
    }
};

std::string text_of(const char* format, auto... values) {
    auto text = std::array<char, 256>{};
    std::snprintf(text.data(), text.size(), format, values...);
    return text.data();
}

}  // namespace

std::span<const Parameter> parameters_to_fit() {
    static constexpr Parameter all[] = {
        {"edge", 175, 0.5, constant<&Constants::edge>},
        {"early_flash before Hopper", 0.35, 0.2,
         [](Constants& c, Job&, double to) { c.early_flash[0] = to; }},
        {"early_flash from Hopper on", 0.22, 0.3,
         [](Constants& c, Job&, double to) { c.early_flash[1] = to; }},
        {"flash before Hopper", 0.57, 0.2, [](Constants& c, Job&, double to) { c.flash[0] = to; }},
        {"flash from Hopper on", 0.45, 0.3, [](Constants& c, Job&, double to) { c.flash[1] = to; }},
        {"newest", 0.65, 0.2, [](Constants& c, Job&, double to) { c.newest[0] = c.newest[1] = to; }},
        {"half", 1200, 0.5, constant<&Constants::half>},
        {"batched", 0.58, 0.3, constant<&Constants::batched>},
        {"unaligned", 0.15, 0.5, constant<&Constants::unaligned>},
        {"score_bytes", 36, 0.4, constant<&Constants::score_bytes>},
        {"elementwise", 0.65, 0.3, constant<&Constants::elementwise>},
        {"norms", 8, 0.3, constant<&Constants::norms>},
        {"dispatch", 8, 0.4, constant<&Constants::dispatch>},
        {"loss_bytes", 16, 0.4, constant<&Constants::loss_bytes>},
        {"launch", 0.4e-3, 0.5, constant<&Constants::launch>},
        {"scale_up", 0.6, 0.3, constant<&Constants::scale_up>},
        {"scale_out", 0.85, 0.2, constant<&Constants::scale_out>},
        {"overlap", 0.3, 0.5, constant<&Constants::overlap>},
        {"stragglers", 0.005, 0.5, constant<&Constants::stragglers>},
        {"sustained of Hopper", 0.9, 0.1,
         [](Constants&, Job& job, double to) {
             sustained_of(job, {"H100-SXM-80GB", "H800-SXM-80GB", "H200-SXM-141GB", "GH200-96GB"}, to);
         }},
        {"sustained of 500 W Hopper", 0.69, 0.1,
         [](Constants&, Job& job, double to) { sustained_of(job, {"H100-SXM-96GB-500W"}, to); }},
        {"sustained of SimuMax's B200", 0.65, 0.2,
         [](Constants&, Job& job, double to) { sustained_of(job, {"B200-SXM-SimuMax"}, to); }},
        {"scale of Megatron-LM", 0.95, 0.05,
         [](Constants&, Job& job, double to) { scale_of(job, "Megatron-LM", to); }},
        {"scale of Megatron-DeepSpeed", 1.05, 0.05,
         [](Constants&, Job& job, double to) {
             // Jean Zay was 4 % faster after its nodes were mended.
             if (job.stack.name == "Megatron-DeepSpeed")
                 job.stack.scale *= to / stack("Megatron-DeepSpeed").scale;
         }},
        {"scale of InternEvo", 1, 0.05,
         [](Constants&, Job& job, double to) { scale_of(job, "InternEvo", to); }},
        {"hop", 2.5e-6, 0.5,
         [](Constants&, Job& job, double to) {
             if (job.stack.name != "Megatron-DeepSpeed") job.stack.hop = to;
         }},
        {"hop of Jean Zay", 80e-6, 0.5,
         [](Constants&, Job& job, double to) {
             if (job.stack.name == "Megatron-DeepSpeed") job.stack.hop = to;
         }},
        {"shard_latency of InternEvo", 2.5e-3, 0.5,
         [](Constants&, Job& job, double to) {
             if (job.stack.name == "InternEvo") job.stack.shard_latency = to;
         }},
        {"expert_launch", 3.5e-3, 0.5,
         [](Constants&, Job& job, double to) {
             if (job.stack.expert_launch > 0) job.stack.expert_launch = to;
         }},
    };
    return all;
}

std::vector<double> fit(std::span<const Row> rows) {
    const auto problem = Problem(rows);
    const auto all = parameters_to_fit();
    auto values = std::vector<double>{};
    for (const auto& one : all) values.push_back(one.start);
    auto least = loss(problem, values);
    auto damping = 1e-3;
    for (int round = 0; round < 40; ++round) {
        const auto normal = Normal(problem, values);
        auto better = false;
        for (int attempt = 0; attempt < 8 && !better; ++attempt, damping *= 4) {
            auto matrix = normal.matrix;
            for (std::size_t i = 0; i < all.size(); ++i) matrix[i][i] *= 1 + damping;
            const auto step = solved(std::move(matrix), normal.right);
            auto moved = values;
            for (std::size_t i = 0; i < all.size(); ++i) moved[i] *= std::exp(std::clamp(step[i], -0.5, 0.5));
            const auto now = loss(problem, moved);
            if (now >= least) continue;
            better = least - now > 1e-6 * least;
            least = now;
            values = std::move(moved);
            damping /= 20;
            if (!better) return values;
        }
        if (!better) break;
    }
    return values;
}

std::vector<double> errors_with(std::span<const double> values, std::span<const Row> rows) {
    auto errors = std::vector<double>{};
    for (const auto& row : rows) errors.push_back(std::expm1(residual(row, values)));
    return errors;
}

std::string fitted_text(std::span<const Row> rows) {
    const auto values = fit(rows);
    auto text = text_of("%-32s %10s %10s\n", "constant", "start", "fitted");
    const auto all = parameters_to_fit();
    for (std::size_t i = 0; i < all.size(); ++i)
        text += text_of("%-32s %10.4g %10.4g\n", std::string(all[i].name).c_str(), all[i].start, values[i]);
    return text;
}

std::string families_left_out(std::span<const Row> rows) {
    auto families = std::map<std::string, std::vector<Row>>{};
    for (const auto& row : rows)
        if (row.complete && row.seconds) families[row.family].push_back(row);
    auto text =
        text_of("%-24s %5s %7s %7s %7s %7s\n", "left out", "rows", "mean %", "most", "bias", "< 10 %");
    auto means = 0.0;
    auto pooled = std::map<std::string, std::vector<double>>{};
    for (const auto& [family, own] : families) {
        auto others = std::vector<Row>{};
        for (const auto& [name, of] : families)
            if (name != family)
                std::ranges::copy_if(of, std::back_inserter(others),
                                     [](const Row& row) { return !row.kept_back; });
        auto errors = errors_with(fit(others), own);
        auto mean = 0.0, most = 0.0, within = 0.0;
        for (std::size_t i = 0; i < own.size(); ++i)
            for (const auto* name :
                 {"all", own[i].job.model.experts() > 0 ? "with experts" : "without experts"})
                pooled[name].push_back(std::abs(errors[i]));
        for (const auto error : errors) {
            mean += 100 * std::abs(error) / static_cast<double>(errors.size());
            most = std::max(most, 100 * std::abs(error));
            within += (std::abs(error) < 0.1 ? 100.0 : 0.0) / static_cast<double>(errors.size());
        }
        std::ranges::sort(errors);
        means += mean / static_cast<double>(families.size());
        text += text_of("%-24.24s %5d %7.2f %7.2f %+7.2f %7.1f\n", family.c_str(),
                        static_cast<int>(errors.size()), mean, most, 100 * errors[errors.size() / 2], within);
    }
    text += text_of("mean of %d family means %.2f %%\n", static_cast<int>(families.size()), means);
    for (auto& [name, errors] : pooled) {
        std::ranges::sort(errors);
        const auto count = static_cast<double>(errors.size());
        auto mean = 0.0;
        for (const auto error : errors) mean += 100 * error / count;
        const auto within =
            100 * static_cast<double>(std::ranges::lower_bound(errors, 0.1) - errors.begin()) / count;
        text += text_of(
            "%-15s %4d rows, mean %.2f %%, median %.2f %%, %.1f %% within 10 %%, nine of ten below %.2f %%\n",
            name.c_str(), static_cast<int>(errors.size()), mean, 100 * errors[errors.size() / 2], within,
            100 * errors[errors.size() * 9 / 10]);
    }
    return text;
}

}  // namespace rankmesh::plan::score
