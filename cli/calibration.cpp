// SPDX-License-Identifier: Apache-2.0
#include "calibration.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <fmt/core.h>

namespace rankmesh::cli {

namespace {

constexpr auto sizes = std::array<std::size_t, 5>{8, 4 << 10, 64 << 10, 512 << 10, 4 << 20};
constexpr auto always = 3;          // sizes measured always; others only if they take at most:
constexpr auto longest_time = 0.1;  // seconds of a message
constexpr auto rounds = 9;
constexpr auto seconds_of_a_round = 2e-3;  // for each size, but at least one message
constexpr auto most_messages = 200;

/// The units with the same parent as `unit`: the first, and their number.
struct Siblings {
    int first = 0;
    int count = 1;
};

Siblings siblings_of(const Cluster& cluster, int unit, int level) {
    if (level == 0) return {0, cluster.unit_count(0)};
    const auto parent = cluster.unit(cluster.first_device(unit, level), level - 1);
    const auto first = cluster.first_device(parent, level - 1);
    const auto begin = cluster.unit(first, level);
    return {begin, cluster.unit(first + cluster.unit_size(parent, level - 1) - 1, level) - begin + 1};
}

/// Returns the unit `by` steps further among units with the same parent, wrapping around.
int next_of(const Cluster& cluster, int unit, int level, int by) {
    const auto [first, count] = siblings_of(cluster, unit, level);
    return first + (unit - first + by + count) % count;
}

/// The partners of a rank across a level: the same rank of the next unit, and of the previous unit.
struct Partners {
    std::optional<int> to = std::nullopt;
    std::optional<int> from = std::nullopt;
};

Partners partners_of(const Cluster& cluster, int rank, int level) {
    const auto unit = cluster.unit(rank, level);
    if (siblings_of(cluster, unit, level).count == 1) return {};
    const auto index = rank - cluster.first_device(unit, level);
    const auto partner = [&](int by) -> std::optional<int> {
        const auto other = next_of(cluster, unit, level, by);
        if (index >= cluster.unit_size(other, level)) return std::nullopt;
        return cluster.first_device(other, level) + index;
    };
    return {partner(1), partner(-1)};
}

/// Returns the most ranks that send over one link of a level in one direction; 0 if none does.
int most_senders(const Cluster& cluster, int level) {
    auto most = 0;
    for (int unit = 0; unit < cluster.unit_count(level); ++unit)
        if (siblings_of(cluster, unit, level).count > 1)
            most = std::max(most, std::min(cluster.unit_size(unit, level),
                                           cluster.unit_size(next_of(cluster, unit, level, 1), level)));
    return most;
}

/// Returns the seconds of one message of each size across a level, by round, on the slowest rank. The largest
/// sizes are missing if they would take too long.
std::vector<std::vector<double>> time_level(Communicator& all, const Partners& partners) {
    auto out = std::vector<std::uint8_t>(sizes.back());
    auto in = std::vector<std::uint8_t>(sizes.back());
    const auto time = [&](std::size_t bytes, int messages) {
        const auto sent = std::span(out).first(bytes);
        const auto received = std::span(in).first(bytes);
        all.barrier();
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < messages; ++i)
            all.batch([&] {
                if (partners.to) all.send(sent, *partners.to);
                if (partners.from) all.recv(received, *partners.from);
            });
        auto seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / messages;
        all.all_reduce(seconds, rankmesh::max);
        return seconds;
    };
    auto messages = std::vector<int>{};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        time(sizes[i], 1);  // makes connections and touches pages
        const auto seconds = time(sizes[i], 1);
        if (i >= always && seconds > longest_time) break;
        messages.push_back(
            static_cast<int>(std::clamp(seconds_of_a_round / seconds, 1.0, 1.0 * most_messages)));
    }
    auto timed = std::vector<std::vector<double>>{};
    for (int round = 0; round < rounds; ++round) {
        auto& row = timed.emplace_back();
        for (std::size_t i = 0; i < messages.size(); ++i) row.push_back(time(sizes[i], messages[i]));
    }
    return timed;
}

/// Rounds to three digits, because more are noise.
double rounded(double value) {
    return value == 0 ? 0 : std::strtod(fmt::format("{:.2e}", value).c_str(), nullptr);
}

std::string text_of(const Estimate& estimate, double unit, std::string_view name) {
    return fmt::format("{:.3g} {} [{:.3g}..{:.3g}]", estimate.value / unit, name, estimate.low / unit,
                       estimate.high / unit);
}

Json json_of(const Estimate& estimate) {
    return {{"value", estimate.value}, {"low", estimate.low}, {"high", estimate.high}};
}

/// Returns the level whose units are hosts; nullopt if the cluster has only devices.
std::optional<int> level_of_hosts(const Cluster& cluster) {
    auto named = std::optional<int>{};
    for (int level = 0; level < cluster.level_count(); ++level) {
        const auto& each = cluster.levels()[static_cast<std::size_t>(level)];
        if (each.name == "node" || each.name == "host") return level;
        if (!each.units.empty()) named = level;
    }
    if (named) return named;
    return cluster.level_count() > 1 ? std::optional(cluster.level_count() - 2) : std::nullopt;
}

}  // namespace

std::vector<std::string> hosts_of(World& world, Communicator& all) {
    constexpr auto longest = Cluster::longest_name;
    auto own = std::vector<std::uint8_t>(longest);
    const auto host = world.host().substr(0, longest);
    std::ranges::copy(host, own.begin());
    auto names = std::vector<std::uint8_t>(longest * static_cast<std::size_t>(world.size()));
    all.all_gather(own, names);
    auto hosts = std::vector<std::string>{};
    for (auto name = names.begin(); name != names.end(); name += longest)
        hosts.emplace_back(name, std::find(name, name + longest, '\0'));
    return hosts;
}

Cluster cluster_of_hosts(const std::vector<std::string>& host_of_rank) {
    auto nodes = Cluster::Level{.name = "node"};
    for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
        const auto& host = host_of_rank[rank];
        if (rank > 0 && host == host_of_rank[rank - 1]) {
            ++nodes.units.back().count;
            continue;
        }
        if (std::ranges::find(nodes.units, host, &Cluster::Unit::name) != nodes.units.end())
            throw UsageError(fmt::format(
                "rank {} runs on host '{}' like an earlier rank, but rank {} runs on '{}'; start the ranks "
                "of each host one after the other: mpirun --map-by slot, srun --distribution=block",
                rank, host, rank - 1, host_of_rank[rank - 1]));
        nodes.units.push_back({host, 1});
    }
    return Cluster({nodes, {.name = "device"}});
}

std::optional<std::string> rank_elsewhere(const Cluster& cluster,
                                          const std::vector<std::string>& host_of_rank) {
    const auto level = level_of_hosts(cluster);
    if (!level) return std::nullopt;
    const auto has_names = !cluster.levels()[static_cast<std::size_t>(*level)].units.empty();
    const auto ranks = std::min(static_cast<int>(host_of_rank.size()), cluster.size());
    for (int rank = 0; rank < ranks; ++rank) {
        const auto unit = cluster.unit(rank, *level);
        const auto first = cluster.first_device(unit, *level);
        const auto& host = host_of_rank[static_cast<std::size_t>(rank)];
        const auto& wanted =
            has_names ? cluster.unit_name(unit, *level) : host_of_rank[static_cast<std::size_t>(first)];
        if (host == wanted) continue;
        return fmt::format(
            "rank {} runs on host '{}', but cluster {} has it on {}; start the ranks in the order of the "
            "cluster's devices",
            rank, host, detail::excerpt(to_string(cluster), 200),
            has_names ? fmt::format("'{}'", wanted)
                      : fmt::format("{}, '{}', where rank {} runs", cluster.unit_name(unit, *level), wanted,
                                    first));
    }
    return std::nullopt;
}

std::string gigabytes_text(const Estimate& bandwidth) { return text_of(bandwidth, 1e9, "GB/s"); }
std::string microseconds_text(const Estimate& latency) { return text_of(latency, 1e-6, "us"); }

Json json_of(const Calibration& calibration) {
    auto links = Json::array();
    for (std::size_t level = 0; level < calibration.fits.size(); ++level) {
        const auto& fit = calibration.fits[level];
        links.push_back({{"level", calibration.cluster.levels()[level].name},
                         {"bandwidth", fit ? json_of(fit->bandwidth) : Json()},
                         {"latency", fit ? json_of(fit->latency) : Json()}});
    }
    return links;
}

Calibration calibrate(World& world, Communicator& all, const std::optional<Cluster>& given,
                      Progress& progress) {
    if (given && given->size() != world.size())
        throw UsageError(
            fmt::format("--calibrate measures {} on {}, but cluster {} has {}; give the cluster of this job",
                        detail::counted(world.size(), "rank"), world.engine(), to_string(*given),
                        detail::counted(given->size(), "device")));
    const auto cluster = given ? *given : cluster_of_hosts(hosts_of(world, all));
    auto levels = std::vector<Cluster::Level>(cluster.levels().begin(), cluster.levels().end());
    auto fits = std::vector<std::optional<LinkFit>>{};
    for (int level = 0; level < cluster.level_count(); ++level) {
        auto& measured = levels[static_cast<std::size_t>(level)];
        progress.at([&] { return fmt::format("timing messages between units of level {}", measured.name); });
        const auto senders = most_senders(cluster, level);
        if (senders == 0) {
            fits.emplace_back();
            continue;
        }
        auto bytes = std::vector<double>{};
        for (const auto size : sizes) bytes.push_back(static_cast<double>(size) * senders);
        const auto seconds = time_level(all, partners_of(cluster, world.rank(), level));
        const auto fit = fit_link(std::span(bytes).first(seconds.front().size()), seconds);
        measured.bandwidth = rounded(fit.bandwidth.value);
        measured.latency = rounded(fit.latency.value);
        fits.emplace_back(fit);
    }
    return {Cluster(std::move(levels)), std::move(fits)};
}

std::string to_file(const Calibration& calibration, const World& world) {
    auto text = fmt::format(
        "# Measured by {} of {}: messages of up to 4 MiB, all at once, in {} rounds [lowest..highest].\n",
        detail::counted(world.size(), "rank"), world.engine(), rounds);
    for (std::size_t level = 0; level < calibration.fits.size(); ++level) {
        const auto& name = calibration.cluster.levels()[level].name;
        const auto& fit = calibration.fits[level];
        if (fit)
            text += fmt::format("# {}: {}, {}\n", name, gigabytes_text(fit->bandwidth),
                                microseconds_text(fit->latency));
        else
            text += fmt::format("# {}: not measured, because there is only one\n", name);
    }
    return text + to_string(calibration.cluster) + "\n";
}

}  // namespace rankmesh::cli
