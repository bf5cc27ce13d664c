// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include <rankmesh/cluster/cost.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/engine/nccl.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/engine/world.hpp>

#include <rankmesh/engine/launcher.hpp>
#include "calibration.hpp"
#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"
#include "verification.hpp"

namespace rankmesh::cli {

namespace of_run {

using Clock = std::chrono::steady_clock;

struct Arguments : Common {
    std::string engine;
    std::string device;  // "nccl", or "" for buffers of the host
    Bytes bytes = {256 * 1024};
    double timeout = 0;                    // 0: not given
    std::optional<std::string> on;         // the cluster, or only its levels if it is measured
    std::optional<std::string> calibrate;  // the file for the measured cluster
};

/// Thrown on all ranks when a requested device is missing.
class NoDevice : public Error {
public:
    using Error::Error;
};

/// One line of the table: an operation on all groups along one set of axes, over all ranks.
struct Row {
    std::string axes;
    int groups = 0;
    int group_size = 0;
    Verified verified;
    std::optional<double> predicted =
        std::nullopt;  ///< seconds, if the model knows the operation and the links
};

/// The results of a job.
struct Findings {
    std::vector<Row> rows = {};
    std::optional<Cluster> machines = {};
    std::optional<Calibration> calibration = {};
    std::optional<std::pair<std::string, int>> refused =
        {};  ///< why, and the exit status; the same on all ranks

    auto failed() const {
        return std::ranges::count_if(rows, [](const Row& row) { return row.verified.wrong != 0; });
    }
};

/// Returns the predicted seconds of a call; nullopt for operations that the model does not know.
std::optional<double> predict(const Traffic& traffic, const Verified& verified) {
    const auto operation = verified.operation.substr(0, verified.operation.find(' '));  // all_reduce sum
    const auto known =
        std::ranges::find(collectives, operation, [](Collective each) { return to_string(each); });
    if (known == collectives.end()) return std::nullopt;
    return traffic.cost(*known, static_cast<std::int64_t>(verified.bytes)).seconds;
}

std::string bandwidth_text(const Verified& verified) {
    if (verified.bytes == 0 || verified.seconds <= 0) return "-";
    const auto bandwidth = static_cast<double>(verified.bytes) / verified.seconds;
    return bandwidth >= 1e9 ? fmt::format("{:.2f} GB/s", bandwidth / 1e9)
                            : fmt::format("{:.1f} MB/s", bandwidth / 1e6);
}

/// Returns every axis and every pair of axes, as names.
std::vector<std::vector<std::string>> sets_of(const Mesh& mesh) {
    auto sets = std::vector<std::vector<std::string>>{};
    for (int a = 0; a < mesh.axis_count(); ++a) sets.push_back({std::string(mesh.name(AxisId{a}))});
    for (int a = 0; a < mesh.axis_count(); ++a)
        for (int b = a + 1; b < mesh.axis_count(); ++b)
            sets.push_back({std::string(mesh.name(AxisId{a})), std::string(mesh.name(AxisId{b}))});
    return sets;
}

Plan plan_for(const Placement& placement, const std::vector<std::vector<std::string>>& sets) {
    auto mesh = Declaration{.name = "mesh", .mesh = placement.mesh(), .partial = true};
    mesh.placed.assign(placement.table().begin(), placement.table().end());
    for (const auto& set : sets)
        if (set.size() == 2) mesh.over.push_back(Axes(set[0], set[1]));
    return {mesh, {.name = "world"}};
}

/// Runs every operation on every set of axes, on devices if there are any. Collective over the world. All
/// ranks return the same rows; only rank 0 has predictions.
Findings verify_all(World& world, const nccl::World* devices, const Arguments& arguments,
                    const Placement& placement) {
    auto findings = Findings{.machines = cluster_of(arguments.on)};
    const auto mesh = placement.mesh();
    const auto sets = sets_of(mesh);
    auto member = world.join(plan_for(placement, sets));
    auto all = member["world"].on("world").host();
    // Ranks that were started with different arguments would have buffers of different lengths.
    auto bytes_range = std::array<std::int64_t, 2>{static_cast<std::int64_t>(arguments.bytes.count),
                                                   -static_cast<std::int64_t>(arguments.bytes.count)};
    all.all_reduce(bytes_range, rankmesh::max);
    // If all ranks find the same error, end without an exception, which would abort the job.
    const auto refuse = [&](std::string why, int status) {
        findings.refused = {std::move(why), status};
        return std::move(findings);
    };
    if (bytes_range[0] != -bytes_range[1])
        return refuse(
            fmt::format("--bytes differs between the ranks, from {} to {}; give all ranks the same value",
                        -bytes_range[1], bytes_range[0]),
            2);
    const auto place = member["mesh"];
    const auto operations = operation_names(devices != nullptr);
    auto progress = Progress(world.rank() == 0);
    if (findings.machines)
        if (const auto elsewhere = rank_elsewhere(*findings.machines, hosts_of(world, all)))
            return refuse(*elsewhere, 1);
    try {
        if (arguments.calibrate) {
            findings.calibration = calibrate(world, all, findings.machines, progress);
            findings.machines = findings.calibration->cluster;
        }
        // Refuse a mesh that does not fit the cluster before anything runs.
        if (findings.machines) Traffic(*findings.machines, placement, {});
    } catch (const UsageError& error) {
        return refuse(error.what(), 2);
    }
    auto& rows = findings.rows;
    for (const auto& set : sets) {
        const auto names = std::vector<std::string_view>(set.begin(), set.end());
        auto on = place.find(std::span<const std::string_view>(names));
        auto axes = AxisSet{};
        for (auto name : names) axes.insert(mesh.axis(name));
        const auto partition = mesh.partition(axes);
        const auto begin = rows.size();
        for (std::size_t which = 0; which < operations.size(); ++which) {
            const auto label = joined(set, ",");
            progress.at([&] {
                return fmt::format("{} of {} verified, now {} on {}", rows.size(),
                                   sets.size() * operations.size(), operations[which], label);
            });
            auto verified = Verified{.operation = operations[which]};
            try {
                if (on) verified = verify(*on, static_cast<int>(which), arguments.bytes.count, devices);
            } catch (const std::bad_alloc&) {
                throw EngineFailure(fmt::format(
                    "buffers of {} bytes on every rank cannot be allocated; give a smaller --bytes",
                    arguments.bytes.count));
            }
            // Reduce to the slowest rank's time and the sum of errors; ranks outside the mesh have neither.
            all.all_reduce(verified.seconds, rankmesh::max);
            all.all_reduce(verified.wrong);
            auto bytes = static_cast<std::int64_t>(verified.bytes);
            all.all_reduce(bytes, rankmesh::max);
            verified.bytes = static_cast<std::size_t>(bytes);
            rows.push_back({label, partition.size(), partition.group_size(), verified});
        }
        if (!findings.machines || world.rank() != 0) continue;  // only rank 0 reports
        const auto traffic = Traffic(*findings.machines, placement, axes);
        for (auto& row : std::span(rows).subspan(begin)) row.predicted = predict(traffic, row.verified);
    }
    return findings;
}

/// Returns the columns of the prediction and its error.
std::string prediction_text(const Row& row) {
    if (!row.predicted) return fmt::format("{:>10}  {:>6}  ", "-", "-");
    const auto measured = row.verified.seconds;
    const auto error = measured > 0 ? fmt::format("{:+.0f}%", (*row.predicted / measured - 1) * 100) : "-";
    return fmt::format("{:>10}  {:>6}  ", time_text(*row.predicted), error);
}

void print_links(const Calibration& calibration, Output& output) {
    output.print("{}\n\n{:<12}  {:>6}  {:<30}  {}\n", to_string(calibration.cluster), "level", "units",
                 "bandwidth [lowest..highest]", "latency [lowest..highest]");
    for (std::size_t i = 0; i < calibration.fits.size(); ++i) {
        const auto& fit = calibration.fits[i];
        output.print("{:<12}  {:>6}  {:<30}  {}\n", calibration.cluster.levels()[i].name,
                     calibration.cluster.unit_count(static_cast<int>(i)),
                     fit ? gigabytes_text(fit->bandwidth) : "not measured: there is only one",
                     fit ? microseconds_text(fit->latency) : "");
    }
    output.write("\n");
}

void print_table(const std::vector<Row>& rows, Output& output) {
    auto width = std::size_t{4};
    for (const auto& row : rows) width = std::max(width, row.axes.size());
    const auto predicts = std::ranges::any_of(rows, [](const Row& row) { return row.predicted.has_value(); });
    output.print("{:<{}}  {:>11}  {:<17}  {:>9}  {:>10}  {}{:>11}  {}\n", "axes", width, "groups",
                 "operation", "bytes", "time", predicts ? " predicted   error  " : "", "bandwidth", "ok");
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto& row = rows[i];
        const auto& verified = row.verified;
        const auto first = i == 0 || rows[i - 1].axes != row.axes;
        output.print("{:<{}}  {:>11}  {:<17}  {:>9}  {:>10}  {}{:>11}  {}\n", first ? row.axes : "", width,
                     first ? fmt::format("{} x {}", row.groups, row.group_size) : "", verified.operation,
                     bytes_text(verified.bytes), time_text(verified.seconds),
                     predicts ? prediction_text(row) : "", bandwidth_text(verified),
                     verified.wrong == 0 ? "ok" : fmt::format("{} WRONG", verified.wrong));
    }
}

int report(const World& world, const Arguments& arguments, const Placement& placement,
           const Findings& findings, double seconds, Output& output) {
    const auto& rows = findings.rows;
    const auto text = to_string(placement);
    const auto failed = findings.failed();
    if (arguments.json) {
        auto out = Json{{"mesh", text},          {"engine", world.engine()}, {"device", nullptr},
                        {"world", world.size()}, {"ok", failed == 0},        {"rows", nullptr}};
        if (!arguments.device.empty()) out["device"] = arguments.device;
        for (const auto& row : rows) {
            auto values = Json({{"axes", row.axes},
                                {"groups", row.groups},
                                {"group_size", row.group_size},
                                {"operation", row.verified.operation},
                                {"bytes", row.verified.bytes},
                                {"seconds", row.verified.seconds},
                                {"wrong", row.verified.wrong}});
            if (row.predicted) values["predicted"] = *row.predicted;
            out["rows"].push_back(std::move(values));
        }
        if (findings.machines) out["cluster"] = to_string(*findings.machines);
        if (findings.calibration) out["links"] = json_of(*findings.calibration);
        output.print("{}\n", out.dump());
    } else {
        const auto ranks = world.engine() == "threads" ? detail::counted(world.size(), "thread")
                           : world.size() == 1         ? "1 process"
                                                       : fmt::format("{} processes", world.size());
        output.print("{} on {}{}: {}\n\n", text, world.engine(),
                     arguments.device.empty() ? "" : " with " + arguments.device, ranks);
        if (findings.calibration) print_links(*findings.calibration, output);
        print_table(rows, output);
        if (failed == 0)
            output.print("\nall {} ok in {}: every element on every rank is correct\n", rows.size(),
                         time_text(seconds));
        else
            output.print("\n{} of {} WRONG\n", failed, rows.size());
    }
    return failed == 0 ? 0 : 1;
}

/// The program of one rank; only rank 0 prints.
int run_in(World& world, Arguments arguments, Output& output) {
    if (arguments.world && *arguments.world != world.size())
        throw UsageError(fmt::format("--world is {}, but the launcher started {} processes", *arguments.world,
                                     world.size()));
    arguments.world = world.size();
    arguments.world_source = world.engine() == "threads" ? "there are" : "the launcher started";
    const auto placement = arguments.placement();
    auto devices = std::optional<nccl::World>{};
    try {
        if (!arguments.device.empty()) devices.emplace(world);
    } catch (const NotBuilt& error) {
        throw NoDevice(error.what());
    } catch (const EngineFailure& error) {
        throw NoDevice(error.what());
    }
    const auto begin = Clock::now();
    const auto findings =
        verify_all(devices ? *devices : world, devices ? &*devices : nullptr, arguments, placement);
    const auto seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (findings.refused) {
        const auto& [why, status] = *findings.refused;
        if (world.rank() == 0) fmt::print(stderr, "rankmesh: {}\n", why);
        return status;
    }
    if (world.rank() != 0) return findings.failed() == 0 ? 0 : 1;
    if (findings.calibration) write_file(*arguments.calibrate, to_file(*findings.calibration, world));
    return report(world, arguments, placement, findings, seconds, output);
}

WorldOptions options_of(const Arguments& arguments) {
    if (arguments.timeout == 0 && std::getenv("RANKMESH_TIMEOUT")) return {.engine = arguments.engine};
    const auto seconds = std::chrono::duration<double>(arguments.timeout == 0 ? 60 : arguments.timeout);
    return {.engine = arguments.engine,
            .timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(seconds)};
}

/// Runs one process of a job. All ranks get the same usage error; only one prints it.
int run_launched(const Arguments& arguments, Output& output) {
    auto world = World::from_environment(options_of(arguments));
    const auto say = [&](const std::exception& error, int status) {
        if (world.rank() == 0) fmt::print(stderr, "rankmesh: {}\n", error.what());
        return status;
    };
    try {
        return run_in(world, arguments, output);
    } catch (const UsageError& error) {
        return say(error, 2);
    } catch (const Disagreement& error) {
        return say(error, 2);
    } catch (const NoDevice& error) {
        return say(error, 1);
    }
}

int run_threads(Arguments arguments, Output& output) {
    const auto placement = arguments.placement();
    const auto size = placement.extent();
    auto result = 0;
    arguments.world = std::max(size, arguments.world.value_or(size));
    threads::run(
        *arguments.world,
        [&](World& world) {
            const auto own = run_in(world, arguments, output);
            if (world.rank() == 0) result = own;
        },
        options_of(arguments));
    return result;
}

int run(Arguments arguments, Output& output) {
    const auto* device = std::getenv("RANKMESH_DEVICE");
    if (arguments.device.empty() && device) arguments.device = device;
    if (!arguments.device.empty() && arguments.device != "nccl")
        throw UsageError(fmt::format("unknown device engine '{}'{}; the only device engine is 'nccl'",
                                     arguments.device, did_you_mean(arguments.device, {"nccl"})));
    if (arguments.calibrate && !arguments.device.empty())
        throw UsageError("--calibrate measures messages between buffers on the host; remove --device");
    if (std::getenv("RANKMESH_THREADS") && announced_rank().value_or(Announced{}).value == 0)
        fmt::print(stderr, "rankmesh: RANKMESH_THREADS has no effect on run, whose mesh gives the threads\n");
    return is_launched(arguments.engine) ? run_launched(arguments, output) : run_threads(arguments, output);
}

}  // namespace of_run

Subcommand run() {
    const auto arguments = std::make_shared<of_run::Arguments>();
    return {
        .name = "run",
        .help = "Bring up a mesh, run every operation on every axis, and verify every element.",
        .options = arguments->options(
            {with_values(
                 {"threads", "mpi", "gloo"},
                 {"--engine",
                  "threads, mpi or gloo; default: RANKMESH_ENGINE, else the launcher's (mpi under mpirun; "
                  "gloo under torchrun, under srun or with RANKMESH_STORE), else threads",
                  &arguments->engine, "ENGINE"}),
             with_values({"nccl"},
                         {"--device",
                          "nccl: also use NCCL, for buffers on GPUs; default: RANKMESH_DEVICE, else buffers "
                          "on the host",
                          &arguments->device, "ENGINE"}),
             {"--bytes", "buffer size for the timings, such as 1MiB; default: 256KiB", &arguments->bytes,
              "SIZE", Option::Range{1, 0x1p40, false}},
             {"--timeout", "timeout of each call, in seconds; default: RANKMESH_TIMEOUT, else 60",
              &arguments->timeout, "S", Option::Range{0.001, 86400}},
             {"--on", "the cluster, to predict the times; --calibrate uses only its levels", &arguments->on,
              "CLUSTER"},
             {"--calibrate",
              "measure the links of each level of --on, or between the hosts, and write the cluster to FILE "
              "for later use by --on",
              &arguments->calibrate, "FILE"}}),
        .run = [arguments](Output& output) { return of_run::run(*arguments, output); },
        .group = Group::run,
        .examples = {"mpirun -n 8 rankmesh run 'pp=2 dp=2 tp=2'", "rankmesh run 'dp=8' --device nccl"}};
}

}  // namespace rankmesh::cli
