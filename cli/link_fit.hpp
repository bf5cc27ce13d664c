// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace rankmesh::cli {

/// A measured value: the median of its rounds, the lowest and the highest of them.
struct Estimate {
    double value = 0;
    double low = 0;
    double high = 0;

    static Estimate of(std::vector<double> rounds) {
        std::ranges::sort(rounds);
        return {rounds[rounds.size() / 2], rounds.front(), rounds.back()};
    }
};

/// A link that takes `latency + bytes / bandwidth` seconds for a message.
struct LinkFit {
    Estimate latency;    ///< seconds
    Estimate bandwidth;  ///< bytes a second
};

/// Fits each round by itself, by least squares of the relative errors, so that small messages decide the
/// latency and large ones the bandwidth; `seconds[round][i]` is what messages of `bytes[i]` took, more than
/// 0.
///
/// A latency below 0 is 0; where larger messages take no longer the bandwidth is 10^18, the most a cluster
/// can have.
inline LinkFit fit_link(std::span<const double> bytes, const std::vector<std::vector<double>>& seconds) {
    auto latencies = std::vector<double>{};
    auto bandwidths = std::vector<double>{};
    for (const auto& round : seconds) {
        // The sums of weight 1 / t^2 over 1, x, x^2, t and x t.
        double s = 0, sx = 0, sxx = 0, st = 0, sxt = 0;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            const auto weight = 1 / (round[i] * round[i]);
            s += weight;
            sx += weight * bytes[i];
            sxx += weight * bytes[i] * bytes[i];
            st += weight * round[i];
            sxt += weight * bytes[i] * round[i];
        }
        constexpr auto most = 1e18;
        const auto slope = (s * sxt - sx * st) / (s * sxx - sx * sx);
        const auto latency = (st - slope * sx) / s;
        latencies.push_back(latency >= 1e-12 ? latency : 0);
        bandwidths.push_back(slope > 1 / most ? std::max(1 / slope, 1.0) : most);
    }
    return {Estimate::of(std::move(latencies)), Estimate::of(std::move(bandwidths))};
}

}  // namespace rankmesh::cli
