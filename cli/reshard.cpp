// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/reshard.hpp>
#include <rankmesh/report/text.hpp>

#include "formats/text.hpp"
#include "json_stream.hpp"
#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_reshard {

struct Arguments {
    std::string from;
    std::string to;
    std::optional<int> world;
    std::string shape;
    std::string split = "replicated";
    std::string into = "replicated";
    Bytes bytes = {2};
    std::optional<std::string> on;
    std::string rank;
    bool json = false;
};

/// Reads `4096x4096`. Throws UsageError for any other text.
std::vector<std::int64_t> shape_of(std::string_view text) {
    auto shape = std::vector<std::int64_t>{};
    for (const auto word : formats::split(text, 'x')) {
        const auto size = detail::number_in<std::int64_t>(word);
        if (!size)
            throw UsageError(
                fmt::format("--shape {} is not a shape: {} is not a size; give sizes such as 4096x4096",
                            detail::in_quotes(text), detail::in_quotes(word)));
        shape.push_back(*size);
    }
    return shape;
}

Mesh mesh_of_text(const Arguments& arguments, const std::string& text) {
    const auto placement = Common{.mesh = text, .world = arguments.world}.placement();
    if (placement.table().empty()) return placement.mesh();
    throw UsageError(fmt::format(
        "{} is a placement, but reshard supports only meshes of axes; give one such as 'dp=4 tp=2 @8'",
        detail::in_quotes(text)));
}

/// Returns the number of ranks per host, 1 without a cluster. Throws UsageError if a rank has no device, or
/// if hosts have different numbers of ranks.
int ranks_of_a_host(const std::optional<Cluster>& cluster, int extent) {
    if (!cluster) return 1;
    check_device(*cluster, extent - 1);
    const auto hosts = cluster->level_count() - 2;
    if (hosts < 0) return cluster->size();
    const auto size = cluster->unit_size(0, hosts);
    for (int host = 0; host <= cluster->unit(extent - 1, hosts); ++host) {
        const auto first = cluster->first_device(host, hosts);
        const auto ranks = std::min(extent - first, cluster->unit_size(host, hosts));
        if (ranks > size || (ranks < size && first + ranks < extent))
            throw UsageError(fmt::format(
                "{} has ranks {}..{}, and {} has {}; reshard requires the same number of ranks on each host",
                cluster->unit_name(host, hosts), first, first + ranks - 1, cluster->unit_name(0, hosts),
                detail::counted(size, "rank")));
    }
    return size;
}

/// A reshard and the size of its elements.
struct Job {
    Sharding from;
    Sharding to;
    std::vector<Reshard> steps;
    std::int64_t bytes = 1;

    int host() const { return steps.front().host(); }
    int extent() const { return std::max(steps.front().extent(), steps.back().extent()); }
    std::int64_t bytes_of(const Slice& slice) const { return slice.elements() * bytes; }
    report::Traffic traffic(int rank) const { return report::traffic_of(steps, rank); }
    bool inside(int rank) const { return from.mesh().contains(rank) || to.mesh().contains(rank); }

    /// Returns the messages of one rank in all steps; each step has two stages.
    std::vector<Transfer> transfers(int rank, std::vector<Transfer> (Reshard::*of)(int) const) const {
        auto all = std::vector<Transfer>{};
        for (std::size_t i = 0; i < steps.size(); ++i)
            for (auto transfer : (steps[i].*of)(rank)) {
                transfer.stage += 2 * static_cast<int>(i);
                all.push_back(std::move(transfer));
            }
        return all;
    }
    std::vector<Transfer> receives(int rank) const { return transfers(rank, &Reshard::receives); }
    std::vector<Transfer> sends(int rank) const { return transfers(rank, &Reshard::sends); }
    std::vector<Kept> keeps(int rank) const { return steps.back().keeps(rank); }
};

std::optional<Slice> held(const Sharding& sharding, int rank) {
    return sharding.mesh().contains(rank) ? std::optional(sharding.slice(rank)) : std::nullopt;
}
std::string text_of(const std::optional<Slice>& slice) { return slice ? to_string(*slice) : "-"; }

void print_heading(const Job& job, const std::optional<Cluster>& cluster, const Arguments& arguments,
                   Output& output) {
    const auto& from = job.from;
    const auto& to = job.to;
    output.print(
        "{} of {} each, {}\n  from {}, {}\n  to   {}, {}\n\n", arguments.shape,
        detail::counted(job.bytes, "byte"),
        cluster ? fmt::format("on {}, {} a host", to_string(*cluster), detail::counted(job.host(), "rank"))
                : std::string("without machines"),
        to_string(from.mesh()), to_string(from.split()), to_string(to.mesh()), to_string(to.split()));
}

void print_text(const Job& job, bool machines, Output& output) {
    auto progress = Progress();
    const auto at = [&](int rank) {
        progress.at([&] { return fmt::format("{} of {} ranks", rank, job.extent()); });
    };
    const auto text =
        report::ReshardText{.bytes = job.bytes, .hosts = machines, .hint = "; --rank R shows one", .at = at};
    output.write(text(job.steps));
}

void print_text_of_rank(const Job& job, int rank, Output& output) {
    output.print("rank {}: {} becomes {}\n\n", rank, text_of(held(job.from, rank)),
                 text_of(held(job.to, rank)));
    auto rows = std::vector<std::vector<std::string>>{{"stage", "", "peer", "part", "bytes", "slice"}};
    for (const auto& [part, slice] : job.keeps(rank))
        rows.push_back(
            {"-", "keeps", "-", std::to_string(part), std::to_string(job.bytes_of(slice)), to_string(slice)});
    const auto add = [&](const std::vector<Transfer>& transfers, const std::string& what) {
        for (const auto& [stage, peer, part, slice] : transfers)
            rows.push_back({std::to_string(stage), what, std::to_string(peer), std::to_string(part),
                            std::to_string(job.bytes_of(slice)), to_string(slice)});
    };
    add(job.receives(rank), "receives from");
    add(job.sends(rank), "sends to");
    output.write(table(rows, 0, 1));
}

// --- JSON

Json json_of(const Slice& slice) {
    auto ranges = std::vector<std::vector<std::int64_t>>{};
    for (const auto& range : slice.ranges) ranges.push_back({range.begin, range.end});
    return ranges;
}
Json json_of(const std::optional<Slice>& slice) { return slice ? json_of(*slice) : Json(); }
Json json_of(const Sharding& sharding) {
    return {{"mesh", to_string(sharding.mesh())}, {"split", to_string(sharding.split())}};
}
void add_slices(const Job& job, int rank, JsonStream& json) {
    json.add("rank", rank);
    json.add("had", json_of(held(job.from, rank)));
    json.add("shall_have", json_of(held(job.to, rank)));
}
void add(const report::Traffic& traffic, std::int64_t bytes, JsonStream& json) {
    json.add("keeps", traffic.keeps * bytes);
    json.add("receives", traffic.receives * bytes);
    json.add("from_other_hosts", traffic.between * bytes);
    json.add("sends", traffic.sends * bytes);
    json.add("not_there", traffic.bound * bytes);
}

/// Begins the object.
void print_json_heading(const Job& job, const std::optional<Cluster>& cluster, JsonStream& json) {
    const auto shape = job.from.shape();
    json.object();
    json.add("shape", std::vector(shape.begin(), shape.end()));
    json.add("bytes", job.bytes);
    json.add("from", json_of(job.from));
    json.add("to", json_of(job.to));
    json.add("on", cluster ? Json(to_string(*cluster)) : Json());
    json.add("host", job.host());
}

void print_json(const Job& job, JsonStream& json) {
    json.array("ranks", ",\n");
    auto all = report::Traffic{};
    auto progress = Progress(isatty(STDOUT_FILENO) == 0);  // otherwise the user sees the rows
    for (int rank = 0; rank < job.extent(); ++rank) {
        progress.at([&] { return fmt::format("{} of {} ranks", rank, job.extent()); });
        if (!job.inside(rank)) continue;
        const auto traffic = job.traffic(rank);
        all += traffic;
        json.object();
        add_slices(job, rank, json);
        add(traffic, job.bytes, json);
        json.end();
    }
    json.end();
    json.object("total");
    add(all, job.bytes, json);
    json.end();
    json.end();
}

void print_json_of_rank(const Job& job, int rank, JsonStream& json) {
    add_slices(job, rank, json);
    json.array("keeps");
    for (const auto& [part, slice] : job.keeps(rank))
        json.add(Json{{"part", part}, {"slice", json_of(slice)}});
    json.end();
    const auto add = [&](std::string_view key, const std::vector<Transfer>& transfers) {
        json.array(key);
        for (const auto& [stage, peer, part, slice] : transfers)
            json.add(Json{{"stage", stage}, {"peer", peer}, {"part", part}, {"slice", json_of(slice)}});
        json.end();
    };
    add("receives", job.receives(rank));
    add("sends", job.sends(rank));
    json.end();
}

int run(const Arguments& arguments, Output& output) {
    if (arguments.shape.empty())
        throw UsageError("reshard requires the shape of the array; add --shape, such as --shape 4096x4096");
    const auto shape = shape_of(arguments.shape);
    const auto from = Sharding(mesh_of_text(arguments, arguments.from), shape, Split::parse(arguments.split));
    const auto to = Sharding(mesh_of_text(arguments, arguments.to), shape, Split::parse(arguments.into));
    const auto cluster = cluster_of(arguments.on);
    const auto extent = std::max(from.mesh().extent(), to.mesh().extent());
    const auto host = ranks_of_a_host(cluster, extent);
    auto elements = std::int64_t{1};  // checked by the shardings
    for (const auto size : shape) elements *= size;
    // Every rank may hold all elements.
    if (elements >
        std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(arguments.bytes.count) / extent)
        throw UsageError(
            fmt::format("{} ranks with an array of shape {} and {} bytes per element can hold more than 2^63 "
                        "- 1 bytes in total; give a smaller --bytes or --shape",
                        extent, arguments.shape, arguments.bytes.count));
    const auto job =
        Job{from, to, Reshard::steps(from, to, host), static_cast<std::int64_t>(arguments.bytes.count)};
    auto json = JsonStream(output);
    if (arguments.json)
        print_json_heading(job, cluster, json);
    else
        print_heading(job, cluster, arguments, output);
    if (arguments.rank.empty()) {
        arguments.json ? print_json(job, json) : print_text(job, cluster.has_value(), output);
        return 0;
    }
    const auto rank = number_or_coordinate(from.mesh(), arguments.rank);
    if (!job.inside(rank))
        throw UsageError(fmt::format("rank {} is in neither mesh: {} covers {}, and {} {}", rank,
                                     to_string(from.mesh()), to_string(from.mesh().ranks()),
                                     to_string(to.mesh()), to_string(to.mesh().ranks())));
    arguments.json ? print_json_of_rank(job, rank, json) : print_text_of_rank(job, rank, output);
    return 0;
}

}  // namespace of_reshard

Subcommand reshard() {
    const auto arguments = std::make_shared<of_reshard::Arguments>();
    return {
        .name = "reshard",
        .help = "List what each rank sends and receives when an array changes its layout.",
        .options = {{"FROM", "the mesh before, such as 'dp=4 tp=2'", &arguments->from},
                    {"TO", "the mesh after, in the same world, such as 'tp=4 @8'", &arguments->to},
                    world_option(arguments->world, "number of ranks, for a size '*'"),
                    {"--json", "print JSON; docs/json.md describes it", &arguments->json},
                    {"--shape", "shape of the array, such as 4096x4096", &arguments->shape, "SIZES"},
                    {"--split",
                     "how FROM splits the array, such as '0=dp,tp 1=cp:megatron sum=pp'; default: replicated",
                     &arguments->split, "SPLIT"},
                    {"--into", "how TO splits the array; default: replicated", &arguments->into, "SPLIT"},
                    {"--bytes", "size of one element, in bytes; default: 2", &arguments->bytes, "SIZE",
                     Option::Range{1, 4096, false}},
                    {"--on", "the cluster, such as 'node:32 gpu:8'; the level before the last is the host",
                     &arguments->on, "CLUSTER"},
                    {"--rank", "list the messages of this rank: a number, or a coordinate in FROM",
                     &arguments->rank, "R"}},
        .run = [arguments](Output& output) { return of_reshard::run(*arguments, output); },
        .group = Group::plan,
        .examples = {
            "rankmesh reshard 'dp=2 tp=2' 'tp=4' --shape 4096x4096 --split 0=tp --into 1=tp",
            "rankmesh reshard 'dp=2 tp=2' 'dp=2 tp=2 @4' --shape 100x64 --split 0=tp --on 'node:2 gpu:4' "
            "--rank 5"}};
}

}  // namespace rankmesh::cli
