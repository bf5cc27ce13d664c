// SPDX-License-Identifier: Apache-2.0
#include "plan/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/constants.hpp"

namespace rankmesh::plan {

namespace of_bounds {

/// Lower bounds of the seconds of one micro-batch, forward and backward.
struct Times {
    double layer = 0;  ///< the fastest layer
    double first = 0;  ///< other work on the first stage
    double last = 0;
    double all = 0;  ///< the whole model

    Times(const Pieces& pieces, const Model& model, bool some_layers) {
        const auto of = [&](const Pieces::OfLayer& one) {
            return some_layers ? one.sum() - one.again : one.sum();
        };
        first = pieces.embedding;
        last = pieces.head;
        all = first + last;
        layer = std::numeric_limits<double>::infinity();
        const auto counts = model.counts();
        for (std::size_t i = 0; i < counts.size(); ++i) {
            if (counts[i] == 0) continue;
            layer = std::min(layer, of(pieces.kinds[i]));
            all += counts[i] * of(pieces.kinds[i]);
        }
    }
};

double factor(const Job& job) {
    const auto nodes = static_cast<double>(job.devices) / job.machine.node;
    return job.stack.scale * (1 + Constants{}.stragglers * std::log2(std::max(1.0, nodes)));
}

/// Returns `m * t_max + (sum - t_max) / vpp` for `m` micro-batches, minus possible rounding errors.
double pipeline(const Job& job, double slowest, double all, int vpp, std::int64_t micro_batches) {
    return factor(job) * (static_cast<double>(micro_batches) * slowest + (all - slowest) / vpp) * (1 - 1e-9);
}

}  // namespace of_bounds

bool legal_vpp(const Model& model, int pp, int vpp, std::int64_t micro_batches) {
    return vpp == 1 || (pp > 1 && model.layers() % (std::int64_t{pp} * vpp) == 0 && micro_batches % pp == 0);
}

bool legal_schedule(Schedule schedule, int pp, std::int64_t micro_batches) {
    if (schedule == Schedule::one_f_one_b) return true;
    return pp > 1 && (schedule != Schedule::dual_pipe ||
                      (pp % 2 == 0 && micro_batches % 2 == 0 && micro_batches >= 2 * std::int64_t{pp}));
}

std::vector<Ends> interleaved_ends(int layers, int pp, int vpp) {
    auto all = std::vector<Ends>{};
    const auto chunks = std::int64_t{pp} * vpp;
    // `missing` layers of the first and the last chunk make all chunks equal.
    for (auto missing = chunks - layers % chunks;; missing += chunks) {
        const auto chunk = (layers + missing) / chunks;
        if (missing > 2 * chunk) return all;
        const auto full = static_cast<int>(chunk * vpp);
        for (auto first = std::max(std::int64_t{0}, missing - chunk); first <= std::min(chunk, missing);
             ++first) {
            const auto last = missing - first;
            all.push_back({first == 0 ? 0 : full - static_cast<int>(first),
                           last == 0 ? 0 : full - static_cast<int>(last)});
        }
    }
}

std::vector<int> divisors(std::int64_t number) {
    auto all = std::vector<int>{};
    for (std::int64_t d = 1; d * d <= number; ++d)
        for (const auto one : {d, number / d})
            if (number % d == 0 && one <= std::numeric_limits<int>::max())
                all.push_back(static_cast<int>(one));
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return all;
}

double lower_bound(const Pieces& pieces, const Job& job, int pp, int vpp, std::int64_t micro_batches,
                   bool some_layers) {
    const auto times = of_bounds::Times(pieces, job.model, some_layers);
    const auto most_layers = (job.model.layers() + pp - 1) / pp;
    const auto slowest = std::max(times.all / pp, most_layers * times.layer);
    return of_bounds::pipeline(job, slowest, times.all, vpp, micro_batches);
}

double split_bound(const Pieces& pieces, const Job& job, const Layout& layout, std::int64_t micro_batches,
                   bool some_layers) {
    const auto times = of_bounds::Times(pieces, job.model, some_layers);
    const auto pp = layout.pp;
    const auto layers = job.model.layers();
    const auto first = stage_layers(layout, layers, 0);
    const auto last = stage_layers(layout, layers, pp - 1);
    auto slowest =
        std::max({times.all / pp, times.first + first * times.layer, times.last + last * times.layer});
    if (pp > 2) slowest = std::max(slowest, (layers - first - last + pp - 3) / (pp - 2) * times.layer);
    return of_bounds::pipeline(job, slowest, times.all, layout.vpp, micro_batches);
}

Splits splits(const Pieces& pieces, const Job& job, int pp, std::int64_t micro_batches, bool some_layers,
              double most) {
    const auto times = of_bounds::Times(pieces, job.model, some_layers);
    const auto layers = job.model.layers();
    auto slowest = std::numeric_limits<double>::infinity();
    if (micro_batches > 1 && std::isfinite(most))
        slowest = (most / of_bounds::factor(job) - times.all) / static_cast<double>(micro_batches - 1) *
                      (1 + 1e-6) +
                  1e-9 * times.all;
    const auto fit = [&](double beside) {
        const auto count =
            times.layer > 0 ? (slowest - beside) / times.layer : std::numeric_limits<double>::infinity();
        return static_cast<int>(std::clamp(std::floor(count), 0.0, static_cast<double>(layers)));
    };
    auto found = Splits{};
    found.first_most = std::min(fit(times.first), layers - (pp - 1));
    found.last_most = std::min(fit(times.last), layers - (pp - 1));
    const auto middle = static_cast<std::int64_t>(pp - 2) * fit(0);
    found.both_least = static_cast<int>(std::max(std::int64_t{2}, layers - middle));
    return found;
}

int most_layers(const Layout& layout, int layers) {
    const auto last = layout.pp - 1;
    return std::max({stage_layers(layout, layers, 0), stage_layers(layout, layers, std::min(1, last)),
                     stage_layers(layout, layers, last)});
}

}  // namespace rankmesh::plan
