// SPDX-License-Identifier: Apache-2.0
// How benchmarks take times, and where ./bench/compare finds them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace rankmesh::bench {

inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

/// Nanoseconds a call of `body`, over `calls` in a row.
template <class Body>
double time_of(int calls, Body&& body) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) body();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / calls;
}

/// Nanoseconds by round: ours, what stands beside it, and that again, whose difference is the machine's.
struct Samples {
    std::vector<double> ours, theirs, again;
};

/// That many rounds, or the few that RANKMESH_ROUNDS asks for.
inline int rounds_of(int rounds) {
    const auto* at_most = std::getenv("RANKMESH_ROUNDS");
    return at_most ? std::min(rounds, std::max(std::atoi(at_most), 1)) : rounds;
}

/// Times ours, theirs and theirs again in each round, in turning order, after a round that is not counted.
template <class Ours, class Theirs>
Samples in_turn(int rounds, int calls, Ours&& ours, Theirs&& theirs) {
    auto samples = Samples{};
    for (int round = -1; round < rounds; ++round) {
        double times[3] = {};
        for (int i = 0; i < 3; ++i) {
            const auto which = (i + round + 1) % 3;
            times[which] = which == 0 ? time_of(calls, ours) : time_of(calls, theirs);
        }
        if (round < 0) continue;
        samples.ours.push_back(times[0]);
        samples.theirs.push_back(times[1]);
        samples.again.push_back(times[2]);
    }
    return samples;
}

/// Appends them to the file RANKMESH_SAMPLES, where that is set, as a line of JSON: what ./bench/compare
/// reads. The name is that of a family and what differs inside it, as `round trip/12`.
inline void keep_samples(const std::string& name, const Samples& samples) {
    const auto* path = std::getenv("RANKMESH_SAMPLES");
    auto* file = path ? std::fopen(path, "a") : nullptr;
    if (!file) return;
    std::fprintf(file, "{\"name\": \"%s\"", name.c_str());
    const auto write = [file](const char* key, const std::vector<double>& values) {
        std::fprintf(file, ", \"%s\": [", key);
        for (std::size_t i = 0; i < values.size(); ++i)
            std::fprintf(file, "%s%.6g", i == 0 ? "" : ", ", values[i]);
        std::fputs("]", file);
    };
    write("ours", samples.ours);
    write("theirs", samples.theirs);
    write("again", samples.again);
    std::fputs("}\n", file);
    std::fclose(file);
}

/// The same, and a line for a person.
inline void report(const std::string& name, const Samples& samples) {
    keep_samples(name, samples);
    const auto theirs = median(samples.theirs);
    std::printf("%-44s %14.1f ns   beside %14.1f ns   ratio %6.3f   (the other beside itself %6.3f)\n",
                name.c_str(), median(samples.ours), theirs, median(samples.ours) / theirs,
                median(samples.again) / theirs);
    std::fflush(stdout);
}

}  // namespace rankmesh::bench
