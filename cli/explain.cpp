// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>

#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

#include "output.hpp"
#include "progress.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_explain {

constexpr std::size_t most_findings = 5;
constexpr int cannot_tell = 3;  // exit status; 2 means a wrong command line

struct Arguments {
    std::string folder;
    std::optional<std::string> mesh;
    bool json = false;
};

std::optional<Topology> topology_of(const Arguments& arguments, const std::vector<FlightRecord>& records) {
    if (!arguments.mesh) return std::nullopt;
    auto common = Common{};
    common.mesh = *arguments.mesh;
    for (const auto& record : records) common.world = std::max(common.world, record.world_size);
    common.world_source = "--mesh must be the mesh of the job, whose records say";
    return common.topology();
}

/// `8 records of ranks {0..7}, of PyTorch's nccl`.
std::string summary(const std::vector<FlightRecord>& records) {
    auto ranks = std::vector<int>{};
    auto writers = std::set<std::string>{};
    for (const auto& record : records) {
        ranks.push_back(record.rank);
        if (!record.is_torch)
            writers.insert(detail::excerpt(record.engine));
        else
            writers.insert(record.entries.empty()
                               ? "PyTorch"
                               : "PyTorch's " + detail::excerpt(record.entries.front().call->backend));
    }
    return fmt::format("{} of ranks {}, of {}", detail::counted(records.size(), "record"),
                       ranks_to_string(ranks), joined({writers.begin(), writers.end()}, ", "));
}

void print_text(const std::vector<FlightRecord>& records, const Explanation& explanation, Output& output) {
    const auto width = static_cast<std::size_t>(terminal_width());
    output.print("{}\n\n", folded(summary(records), 0, width));
    const auto& findings = explanation.findings;
    for (std::size_t i = 0; i < findings.size(); ++i) {
        if (i == most_findings) {
            output.print("and {} more; --json lists all\n\n", findings.size() - i);
            break;
        }
        output.print("{}\n", folded(fmt::format("{}. {}", i + 1, findings[i].text), 3, width));
        for (const auto& line : findings[i].details)
            output.print("{}\n", "   " + folded("- " + line, 5, width - 3));
        output.write("\n");
    }
    if (!explanation.doubts.empty()) {
        const auto is_torch = std::ranges::all_of(records, &FlightRecord::is_torch);
        output.print("cannot tell whether something is wrong: {}, {}\n",
                     is_torch ? "PyTorch's dumps have no errors" : "the records show no error",
                     is_torch ? "and" : "but");
        for (const auto& doubt : explanation.doubts)
            output.print("{}\n", "   " + folded("- " + doubt, 5, width - 3));
    } else if (findings.empty()) {
        output.write("nothing is wrong: every rank has a record, and all calls match and are complete\n");
    }
    for (const auto& note : explanation.notes) output.print("{}\n", folded("note: " + note, 6, width));
}

void print_json(const std::vector<FlightRecord>& records, const Explanation& explanation, Output& output) {
    auto out = Json{{"records", records.size()},
                    {"ranks", explanation.ranks},
                    {"wrong", !explanation.findings.empty()},
                    {"findings", Json::array()}};
    if (!explanation.doubts.empty()) out["wrong"] = nullptr;
    for (const auto& finding : explanation.findings) {
        auto one = Json{{"kind", to_string(finding.kind)}, {"ranks", finding.ranks}};
        for (const auto& [key, texts] :
             {std::pair("coordinates", &finding.coordinates), {"hosts", &finding.hosts}}) {
            one[key] = Json::array();
            for (const auto& text : *texts) one[key].push_back(text.empty() ? Json() : Json(text));
        }
        one["communicator"] = finding.communicator.empty() ? Json() : Json(finding.communicator);
        one["axes"] = finding.axes.empty() ? Json() : Json(finding.axes);
        one["group"] = finding.group;
        one["group_is_inferred"] = finding.is_group_inferred;
        one["call"] = finding.call > 0 ? Json(finding.call) : Json();
        one["text"] = finding.text;
        one["details"] = finding.details;
        out["findings"].push_back(std::move(one));
    }
    out["doubts"] = explanation.doubts;
    out["notes"] = explanation.notes;
    output.print("{}\n", out.dump());
}

int run(const Arguments& arguments, Output& output) {
    auto folder = RecordFolder{};
    {
        auto progress = Progress();
        folder = read_records(arguments.folder, [&](std::size_t done, std::size_t all) {
            progress.at([&] { return fmt::format("{} of {} files read", done, all); });
        });
    }
    if (folder.records.empty())
        throw UsageError(fmt::format("the folder {} has no flight record: {}",
                                     detail::in_quotes(arguments.folder),
                                     detail::excerpt(folder.unread.front().why, 300)));
    const auto explanation =
        rankmesh::explain(folder.records, folder.unread, topology_of(arguments, folder.records));
    if (arguments.json)
        print_json(folder.records, explanation, output);
    else
        print_text(folder.records, explanation, output);
    return !explanation.findings.empty() ? 1 : explanation.doubts.empty() ? 0 : cannot_tell;
}

}  // namespace of_explain

Subcommand explain() {
    const auto arguments = std::make_shared<of_explain::Arguments>();
    return {.name = "explain",
            .help = "Find what went wrong in a job from the flight records of its ranks.",
            .options = {{"DIR", "folder with records of rankmesh, or dumps of PyTorch's flight recorder",
                         &arguments->folder},
                        {"--mesh", "mesh of the job, such as 'dp=2 tp=2', to name ranks by coordinates",
                         &arguments->mesh, "MESH"},
                        {"--json", "print JSON; docs/json.md describes it", &arguments->json}},
            .run = [arguments](Output& output) { return of_explain::run(*arguments, output); },
            .group = Group::run,
            .examples = {"rankmesh explain /tmp/records --mesh 'pp=2 dp=2 tp=2'"},
            .notes =
                "Each rank has one file: rank-3.json, or PyTorch's nccl_trace_rank_3 as a pickle or JSON. "
                "rankmesh never executes code of a pickle.\n"
                "Exit status 1: something is wrong. 2: there are no records. 3: the records do not show "
                "whether something is wrong."};
}

}  // namespace rankmesh::cli
