// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace rankmesh::cli {

/// A measured value: the median, lowest and highest of its rounds.
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

/// Fits each round separately by least squares of relative errors: small messages decide the latency, large
/// messages the bandwidth. `seconds[round][i]` is the time of a message of `bytes[i]`, more than 0.
///
/// A negative latency becomes 0. If larger messages do not take longer, the bandwidth is 10^18, the maximum
/// of a cluster.
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
