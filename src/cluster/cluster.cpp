// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/cluster.hpp>

#include <array>

#include "cluster/quantity.hpp"

namespace rankmesh {

namespace {

constexpr auto rates = "B/s, kB/s, MB/s, GB/s or TB/s (bytes: 8 Gb/s are 1 GB/s)";
constexpr auto times = "s, ms, us or ns";

/// The levels as the axes of a mesh; throws UsageError in the words of a cluster.
Mesh mesh_of(const std::vector<Cluster::Level>& levels) {
    if (levels.empty()) throw UsageError("a cluster without levels; name at least one, as in 'node:2 gpu:8'");
    if (levels.size() > max_axes)
        throw UsageError(
            detail::cat("a cluster lists ", levels.size(), " levels; at most ", max_axes, " are possible"));
    auto axes = std::vector<Axis>{};
    auto devices = std::int64_t{1};
    for (const auto& level : levels) {
        checked_name(level.name);
        for (const auto& axis : axes)
            if (axis.name == level.name)
                throw UsageError(
                    detail::cat("the level '", level.name, "' is listed twice; every level stands once"));
        if (level.count < 1)
            throw UsageError(
                detail::cat("level '", level.name, "' has count ", level.count, "; counts are 1 or more"));
        devices *= level.count;
        if (devices > Mesh::max_size)
            throw UsageError(detail::cat("the levels up to '", level.name, "' make ", devices,
                                         " units; a cluster has at most ", Mesh::max_size, " devices"));
        const auto& [name, count, bandwidth, latency] = level;
        if (bandwidth && !(*bandwidth >= 1.0 && *bandwidth <= 1e18))
            throw UsageError(detail::cat("level '", name, "' has a bandwidth of ", *bandwidth,
                                         " bytes a second; it is 1B/s to 1000000TB/s"));
        if (latency && *latency != 0.0 && !(*latency >= 1e-12 && *latency <= 1e3))
            throw UsageError(detail::cat("level '", name, "' has a latency of ", *latency,
                                         " seconds; it is 0s, or 0.001ns to 1000s"));
        axes.push_back({level.name, level.count});
    }
    return Mesh(axes);
}

/// The digits and the point that come next.
std::string read_digits(detail::Reader& reader) {
    auto digits = std::string{};
    for (auto c = reader.peek(); (c >= '0' && c <= '9') || (c == '.' && !digits.empty()); c = reader.peek()) {
        digits += c;
        reader.accept(std::string_view(&c, 1));
    }
    if (digits.empty() || digits.back() == '.') reader.fail("a number such as 25 or 2.5");
    return digits;
}

/// The value of `digits` in the unit that comes next, nothing if that is none of `units`.
std::optional<double> read_unit(detail::Reader& reader, const std::string& digits,
                                std::span<const detail::Unit> units) {
    for (const auto& unit : units)
        if (reader.accept(unit.name)) {
            const auto value = detail::decimal(digits, unit.exponent);
            if (value < 0) reader.fail(detail::cat("a number within range, not ", detail::excerpt(digits)));
            return value;
        }
    return std::nullopt;
}

/// Reads `(25GB/s,5us)`, of which either may be missing.
void read_link(detail::Reader& reader, Cluster::Level& level) {
    reader.blanks();
    const auto digits = read_digits(reader);
    level.bandwidth = read_unit(reader, digits, detail::bandwidth_units);
    if (!level.bandwidth) {
        level.latency = read_unit(reader, digits, detail::latency_units);
        if (!level.latency) reader.fail(detail::cat("a bandwidth in ", rates, " or a latency in ", times));
    }
    reader.blanks();
    if (level.bandwidth && reader.accept(",")) {
        reader.blanks();
        level.latency = read_unit(reader, read_digits(reader), detail::latency_units);
        if (!level.latency) reader.fail(detail::cat("a latency in ", times));
        reader.blanks();
    }
    reader.expect(")");
}

}  // namespace

Cluster::Cluster(std::vector<Level> levels) : levels_(std::move(levels)), mesh_(mesh_of(levels_)) {}

Cluster Cluster::parse(std::string_view text) {
    auto reader = detail::Reader("cluster", text);
    auto levels = std::vector<Level>{};
    for (reader.blanks(); !reader.done(); reader.separator()) {
        auto& level = levels.emplace_back();
        level.name = reader.name();
        if (!reader.accept(":")) reader.fail("':' and a count, as in gpu:8,");
        level.count = reader.number();
        if (reader.accept("(")) read_link(reader, level);
        if (!reader.done() && reader.peek() != ' ' && reader.peek() != ',' && reader.peek() != '\t' &&
            reader.peek() != '\n')
            reader.fail("a blank, or a link such as (25GB/s,5us),");
    }
    return Cluster(std::move(levels));
}

int Cluster::level(std::string_view name) const {
    auto names = std::vector<std::string_view>{};
    for (const auto& level : levels_) {
        if (level.name == name) return static_cast<int>(names.size());
        names.push_back(level.name);
    }
    throw UsageError(detail::cat("cluster ", to_string(*this), " has no level ", detail::in_quotes(name),
                                 did_you_mean(name, names)));
}

const Cluster::Level& Cluster::checked(int level) const {
    if (level < 0 || level >= level_count())
        throw UsageError(detail::cat("level number ", level, " was asked of cluster ", to_string(*this),
                                     "; it has levels 0..", level_count() - 1));
    return levels_[static_cast<std::size_t>(level)];
}

int Cluster::unit_count(int level) const {
    checked(level);
    auto count = 1;
    for (int i = 0; i <= level; ++i) count *= checked(i).count;
    return count;
}

int Cluster::unit(int device, int level) const {
    if (device < 0 || device >= size())
        throw UsageError(detail::cat("device ", device, " is outside cluster ", to_string(*this),
                                     ", which has devices 0..", size() - 1));
    return device / (size() / unit_count(level));
}

Coordinate Cluster::path(int device) const {
    unit(device, 0);
    return mesh_.coord(device);
}

std::string to_string(const Cluster& cluster) {
    auto out = std::string{};
    for (const auto& [name, count, bandwidth, latency] : cluster.levels()) {
        detail::append(out, detail::cat(out.empty() ? "" : " ", name, ":", count));
        if (!bandwidth && !latency) continue;
        out += '(';
        if (bandwidth) out += detail::quantity_to_string(*bandwidth, detail::bandwidth_units);
        if (bandwidth && latency) out += ',';
        if (latency) out += detail::quantity_to_string(*latency, detail::latency_units);
        out += ')';
    }
    return out;
}

}  // namespace rankmesh
