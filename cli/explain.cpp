// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>

#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>
#include <rankmesh/explain/slow.hpp>

#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_explain {

constexpr int cannot_tell = 3;  // exit status; 2 means a wrong command line

struct Arguments {
    std::vector<std::string> paths;
    std::optional<std::string> mesh;
    bool slow = false;
    std::optional<std::string> on;
    bool json = false;
};

std::optional<Placement> placement_of(const Arguments& arguments, const std::vector<FlightRecord>& records) {
    if (!arguments.mesh) return std::nullopt;
    auto common = Common{};
    common.mesh = *arguments.mesh;
    for (const auto& record : records) common.world = std::max(common.world, record.world_size);
    common.world_source = "--mesh must be the mesh of the job, whose records say";
    return common.placement();
}

void print(const std::vector<AnswerLine>& lines, Output& output) {
    for (const auto& [indent, line] : lines) {
        const auto lead = std::min(line.find_first_not_of(' '), line.size());  // folding drops it
        const auto width = static_cast<std::size_t>(terminal_width()) - lead;
        output.print("{}{}\n", line.substr(0, lead), folded(line.substr(lead), indent, width));
    }
}

int run(const Arguments& arguments, Output& output) {
    if (arguments.on && !arguments.slow) throw UsageError("--on names the units of slow ranks; add --slow");
    auto folder = RecordFolder{};
    {
        auto progress = Progress();
        folder = read_records(arguments.paths, [&](std::size_t done, std::size_t all) {
            progress.at([&] { return fmt::format("{} of {} files read", done, all); });
        });
    }
    if (folder.records.empty() && folder.lines.empty()) {
        const auto& first = arguments.paths.front();
        const auto why = detail::excerpt(folder.unread.front().why, 300);
        throw UsageError(
            fmt::format("{}{}; docs/explain.md lists what explain reads",
                        arguments.paths.size() > 1 ? "these paths have nothing to explain: "
                        : std::filesystem::is_directory(first)
                            ? fmt::format("the folder {} has nothing to explain: ", detail::in_quotes(first))
                            : "",
                        why));
    }
    const auto mesh = placement_of(arguments, folder.records);
    const auto show = [&](const auto& found) {
        if (arguments.json)
            output.print("{}\n", json_of(folder.records, found));
        else
            print(lines_of(folder.records, found), output);
    };
    if (arguments.slow) {
        const auto report = explain_slow(folder.records, mesh, cluster_of(arguments.on));
        show(report);
        return !report.doubts.empty() ? cannot_tell : report.findings.empty() ? 0 : 1;
    }
    const auto explanation = rankmesh::explain(folder.records, folder.unread, mesh, folder.lines);
    show(explanation);
    return !explanation.findings.empty() ? 1 : explanation.doubts.empty() ? 0 : cannot_tell;
}

}  // namespace of_explain

Subcommand explain() {
    const auto arguments = std::make_shared<of_explain::Arguments>();
    return {.name = "explain",
            .help = "Find what went wrong in a job from the flight records of its ranks.",
            .options =
                {{"PATH",
                  "folders or files: records, dumps of PyTorch, logs, reports of NCCL's RAS; or ras://HOST",
                  &arguments->paths},
                 {"--mesh", "mesh of the job, such as 'dp=2 tp=2', to name ranks by coordinates",
                  &arguments->mesh, "MESH"},
                 {"--slow", "find who makes a job slow, from the calls that have ended", &arguments->slow},
                 {"--on", "with --slow: cluster, whose units are named if they are slow", &arguments->on,
                  "CLUSTER"},
                 {"--json", "print JSON; docs/json.md describes it", &arguments->json}},
            .run = [arguments](Output& output) { return of_explain::run(*arguments, output); },
            .group = Group::run,
            .examples = {"rankmesh explain /tmp/records --mesh 'pp=2 dp=2 tp=2'",
                         "rankmesh explain host-*/records slurm-123.out"},
            .notes =
                "Each rank has one file: rank-3.json, or PyTorch's nccl_trace_rank_3 as a pickle or JSON. "
                "rankmesh never executes code of a pickle.\n"
                "Exit status 1: something is wrong. 2: no file says anything. 3: the files do not show "
                "whether something is wrong."};
}

}  // namespace rankmesh::cli
