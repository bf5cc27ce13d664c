// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include <rankmesh/cluster/check.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/engine/simulation.hpp>
#include <rankmesh/report/text.hpp>

#include "explain/read/versions.hpp"
#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_check {

using detail::counted;

/// The options about a cluster.
struct OnCluster {
    std::optional<std::string> on;
    std::vector<std::string> keep;
    Bytes bytes = {};  // 0: not given
    bool explain = false;

    std::vector<Option> options();
    /// Returns the cluster and the questions; nullopt without `--on`. Throws UsageError for options that need
    /// `--on`.
    std::optional<std::pair<Cluster, ClusterQuestions>> questions() const;
};

std::vector<Option> OnCluster::options() {
    return {{"--on", "the cluster, such as 'node:32(50GB/s,5us) gpu:8(450GB/s,2us)'", &on, "CLUSTER"},
            {"--keep",
             "require that groups along AXES stay inside one unit of LEVEL, such as tp:node or tp,cp:node; "
             "may be repeated",
             &keep, "AXES:LEVEL"},
            {"--bytes", "buffer size for the timings, such as 1GiB; default: 64MiB", &bytes, "SIZE",
             Option::Range{1, 0x1p50, false}},
            {"--explain", "explain each result, and say what to change", &explain}};
}

std::optional<std::pair<Cluster, ClusterQuestions>> OnCluster::questions() const {
    if (!on) {
        const auto* idle = !keep.empty()     ? "--keep"
                           : bytes.count > 0 ? "--bytes"
                           : explain         ? "--explain"
                                             : nullptr;
        if (idle) throw UsageError(fmt::format("{} requires a cluster; add --on CLUSTER", idle));
        return std::nullopt;
    }
    auto questions = ClusterQuestions{};
    for (const auto& text : keep) questions.keep.push_back(Keep::parse(text));
    if (bytes.count > 0) questions.bytes = static_cast<std::int64_t>(bytes.count);
    return std::pair(*cluster_of(on), questions);
}

struct Arguments : Common {
    OnCluster on_cluster;
    std::vector<std::string> over;
    std::optional<std::string> axes;
    std::string engine;
    bool simulate = false;
    std::optional<std::string> versions;
};

/// The join of one program of a job; of one of its servers.
struct Question {
    conversion::Program program;
    Plan plan;
    int world = 0;
    int rank = 0;     ///< any rank of the meshes: join costs all of them the same
    int outside = 0;  ///< the number of world ranks outside the meshes
};

Question question_of(const Arguments& arguments, conversion::Program program, bool is_whole) {
    for (auto& mesh : program.own.meshes)
        if (program.servers > 0) mesh = conversion::one_server(mesh.mesh());
    const auto& first = program.own.front();
    auto question = Question{};
    question.rank = first.ranks()[0];
    question.world = first.extent();
    if (is_whole && program.servers == 0 && arguments.world) question.world = *arguments.world;
    question.outside = question.world - first.size();
    for (const auto& mesh : program.own.meshes) {
        auto& declaration = question.plan.emplace_back();
        declaration = {.mesh = mesh.mesh(), .partial = true};
        if (program.own.meshes.size() > 1) declaration.name = fmt::format("mesh{}", question.plan.size());
        declaration.placed.assign(mesh.table().begin(), mesh.table().end());
        for (const auto& set : arguments.over)
            if (const auto names = axis_names(set, "--over"); has_axes(mesh, names))
                declaration.over.emplace_back(std::span<const std::string>(names));
        if (!arguments.axes) continue;
        auto& axes = declaration.axes.emplace();
        if (*arguments.axes != "none") axes = axis_names(*arguments.axes, "--axes");
        std::erase_if(axes, [&](const auto& name) { return !mesh.mesh().find(name); });
    }
    question.program = std::move(program);
    return question;
}

/// Throws UsageError for axes that no mesh has.
void check_names(const Arguments& arguments, const Job& job) {
    for (const auto& set : arguments.over) meshes_with(job, axis_names(set, "--over"));
    if (arguments.axes && *arguments.axes != "none")
        for (const auto& name : axis_names(*arguments.axes, "--axes")) meshes_with(job, {name});
    for (const auto& keep : arguments.on_cluster.keep) meshes_with(job, Keep::parse(keep).axes);
}

using OnMachines = std::optional<std::pair<Cluster, ClusterQuestions>>;

std::vector<std::string> engines() {
    auto names = std::vector<std::string>{};
    for (const auto& need : needs_of(join_cost({{.mesh = {{"dp", 1}}}}, 1, 0))) names.push_back(need.engine);
    return names;
}

/// Returns the costs of a step on a cluster: the costs inside a host plus the links between the two most
/// distant devices.
StepCosts costs_on(const OnMachines& asked) {
    auto costs = StepCosts{};
    if (!asked) return costs;
    auto path = 0.0;
    for (const auto& level : asked->first.levels())
        if (level.count > 1) path += 2 * level.latency.value_or(0);
    costs.message += path;
    costs.request += 2 * path;
    costs.connection += 4 * path;
    return costs;
}

/// The simulated join of one engine.
struct Simulation {
    std::string engine;
    JoinBy by = JoinBy::messages;
    SimulatedJoin join = {};
};

/// Returns the simulation for each engine by which ranks join.
std::vector<Simulation> simulations(const Question& question, const std::vector<EngineNeed>& needs,
                                    const StepCosts& costs) {
    auto found = std::vector<Simulation>{};
    auto progress = Progress::on_terminal();
    for (const auto& need : needs) {
        if (!need.by) continue;
        const auto say = [&](int joined) {
            progress.at([&] {
                return fmt::format("join on {}: {} of {} ranks", need.engine, joined, question.world);
            });
        };
        found.push_back(
            {need.engine, *need.by, simulate_join(question.plan, question.world, *need.by, costs, say)});
    }
    if (found.empty())
        throw UsageError(
            fmt::format("ranks on {} join through the engine of their hosts; simulate that engine",
                        needs.front().engine));
    return found;
}

void print_simulations(const std::vector<Simulation>& simulated, const Question& question,
                       const StepCosts& costs, Output& output) {
    const auto width = static_cast<std::size_t>(terminal_width());
    output.print("\n{}\n\n",
                 folded(fmt::format("join of {} simulated, at {} a message, {} a request to the store and "
                                    "{} a connection",
                                    counted(question.world, "rank"), time_text(costs.message),
                                    time_text(costs.request), time_text(costs.connection)),
                        0, width));
    for (const auto& [engine, by, join] : simulated) {
        const auto store = by == JoinBy::store;
        auto text = fmt::format(
            "{:<4} {}: a rank agrees by at most {} of {} B in {} rounds", engine, time_text(join.seconds),
            counted(join.messages.most, store ? "request" : "message"), join.bytes.most, join.rounds);
        text += store ? fmt::format(", and connects by at most {} of {} to {}",
                                    counted(join.address_requests.most, "request"),
                                    megabytes_text(join.address_bytes.most),
                                    counted(join.connections.most, "peer"))
                      : fmt::format(", and makes its groups by at most {}",
                                    counted(join.creations.most, "message"));
        output.print("{}\n", folded(text, 5, width));
    }
}

Json json_of_count(const SimulatedJoin::Count& count) {
    return {{"most", count.most}, {"rank", count.rank}, {"total", count.total}};
}

Json json_of_simulations(const std::vector<Simulation>& simulated, const StepCosts& costs) {
    auto out = Json{{"costs",
                     {{"message", costs.message},
                      {"request", costs.request},
                      {"connection", costs.connection},
                      {"served", costs.served},
                      {"served_byte", costs.served_byte}}}};
    for (const auto& [engine, by, join] : simulated)
        out[engine] = {{"seconds", join.seconds},
                       {"rounds", join.rounds},
                       {"messages", json_of_count(join.messages)},
                       {"bytes", json_of_count(join.bytes)},
                       {"creations", json_of_count(join.creations)},
                       {"address_requests", json_of_count(join.address_requests)},
                       {"address_bytes", json_of_count(join.address_bytes)},
                       {"connections", json_of_count(join.connections)}};
    return out;
}

const std::string& name_of(const Cluster& cluster, int level) {
    return cluster.levels()[static_cast<std::size_t>(level)].name;
}

Json json_of(const Cluster& cluster, const CollectiveCost& cost) {
    auto links = Json::object();
    for (std::size_t l = 0; l < cost.links.size(); ++l)
        links[name_of(cluster, static_cast<int>(l))] = cost.links[l];
    return {{"seconds", cost.seconds ? Json(*cost.seconds) : Json()},
            {"slowest", cost.slowest ? Json(name_of(cluster, *cost.slowest)) : Json()},
            {"links", links}};
}

Json json_of(const Cluster& cluster, const ClusterReport& report) {
    auto out = Json{{"on", to_string(cluster)}, {"right", report.right()},   {"fits", report.fits()},
                    {"ranks", report.ranks},    {"devices", report.devices}, {"bytes", report.bytes},
                    {"rules", Json::array()},   {"costs", Json::array()}};
    for (const auto& rule : report.rules)
        out["rules"].push_back({{"axes", rule.keep.axes},
                                {"level", rule.keep.level},
                                {"default", rule.is_default},
                                {"holds", rule.holds()},
                                {"groups", rule.groups},
                                {"group_size", rule.group_size},
                                {"unit_size", rule.unit_size},
                                {"divides", rule.divides},
                                {"straddling", rule.straddling},
                                {"first", rule.first},
                                {"units", rule.units}});
    for (const auto& costs : report.costs) {
        auto straddling = Json::object();
        for (std::size_t l = 0; l < costs.straddling.size(); ++l)
            straddling[name_of(cluster, static_cast<int>(l))] = costs.straddling[l];
        auto operations = Json::object();
        for (std::size_t i = 0; i < collectives.size(); ++i)
            operations[std::string(to_string(collectives[i]))] = {
                {"steps", costs.together[i].steps},
                {"sent", costs.together[i].sent},
                {"alone", json_of(cluster, costs.alone[i])},
                {"together", json_of(cluster, costs.together[i])}};
        out["costs"].push_back({{"axes", costs.axes},
                                {"groups", costs.groups},
                                {"group_size", costs.group_size},
                                {"straddling", straddling},
                                {"operations", operations}});
    }
    return out;
}

/// Returns how each mesh of a program fits a cluster, where `others` ranks of other programs are too.
std::vector<ClusterReport> reports_on(const Question& question, const OnMachines& asked, int others) {
    auto reports = std::vector<ClusterReport>{};
    for (std::size_t m = 0; asked && m < question.plan.size(); ++m) {
        const auto& given = question.program.given.meshes[m];
        auto own = asked->second;
        own.sets = report::timed_sets(join_cost({question.plan[m]}, question.world, question.rank));
        std::erase_if(own.keep, [&](const Keep& keep) { return !has_axes(given, keep.axes); });
        auto& report = reports.emplace_back(check_on(asked->first, given, own));
        report.others = others;
        if (own.sets.empty() && question.program.servers > 0) report.costs.clear();
        if (own.keep.empty() && !asked->second.keep.empty()) report.rules.clear(), report.unruled.clear();
    }
    return reports;
}

/// Prints the answer to one question, or adds it to `list`. Returns true if all is right.
bool answer(const Question& question, const Arguments& arguments, const OnMachines& asked, int others,
            Json::Array& list, Output& output) {
    const auto cost = join_cost(question.plan, question.world, question.rank);
    auto needs = needs_of(cost);
    if (!arguments.engine.empty())
        std::erase_if(needs, [&](const EngineNeed& need) { return need.engine != arguments.engine; });
    const auto costs = costs_on(asked);
    const auto simulated =
        arguments.simulate ? simulations(question, needs, costs) : std::vector<Simulation>{};
    const auto fits = std::ranges::all_of(needs, &EngineNeed::fits);
    const auto reports = reports_on(question, asked, others);
    const auto right = fits && std::ranges::all_of(reports, &ClusterReport::right);
    const auto& program = question.program;
    if (!arguments.json) {
        const auto width = static_cast<std::size_t>(terminal_width());
        if (program.servers > 0)
            output.print("{}: {}, each a job of its own\n\n", to_string(program.given),
                         counted(program.servers, "server"));
        output.write(report::text_of(to_string(program.servers > 0 ? program.own : program.given), cost,
                                     needs, question.outside, width));
        if (arguments.simulate) print_simulations(simulated, question, costs, output);
        for (std::size_t m = 0; m < reports.size(); ++m)
            output.print("\n{}{}", reports.size() > 1 ? to_string(program.given.meshes[m]) + " " : "",
                         report::text_of(asked->first, program.given.meshes[m].mesh(), reports[m],
                                         arguments.on_cluster.explain, width));
        return right;
    }
    auto& out = list.emplace_back(Json{{"mesh", to_string(program.given)},
                                       {"world", question.world},
                                       {"fits", fits},
                                       {"sets", Json::array()}});
    for (const auto& set : cost.sets)
        out["sets"].push_back({{"axes", set.text},
                               {"groups", set.groups},
                               {"group_size", set.group_size},
                               {"communicator", set.communicator ? Json(*set.communicator) : Json()}});
    out["communicators"] = {{"most", cost.communicators},
                            {"least", question.outside > 0 ? 0 : cost.communicators}};
    for (const auto& need : needs) {
        auto& values = out["engines"][need.engine] = {{"fits", need.fits}};
        for (const auto& [of, count, outside] : need.amounts) {
            const auto most = count ? Json(*count) : Json();
            values[of] = outside
                             ? Json{{"most", most}, {"least", question.outside > 0 ? Json(*outside) : most}}
                             : most;
        }
        values["text"] = need.text;
    }
    if (arguments.simulate) out["simulated"] = json_of_simulations(simulated, costs);
    if (reports.size() == 1) out["cluster"] = json_of(asked->first, reports[0]);
    for (std::size_t m = 0; reports.size() > 1 && m < reports.size(); ++m)
        out["clusters"].push_back(json_of(asked->first, reports[m]));
    return right;
}

/// Prints what is known of the planned versions, or adds it to the JSON of each program.
void answer_of_versions(const of_versions::Versions& versions, bool json, Json::Array& list, Output& output) {
    auto remarks = std::vector<std::string>{};
    for (const auto* fault : of_versions::faults_of(versions))
        remarks.push_back("known fault: " + of_versions::text_of(*fault));
    if (auto warning = of_versions::untested(versions); !warning.empty()) remarks.push_back(warning);
    for (auto& program : list) program["versions"] = remarks;
    if (json) return;
    output.write(remarks.empty() ? "\nthe versions are tested, and have no known faults\n" : "\n");
    for (const auto& remark : remarks)
        output.print("{}\n", folded(remark, 2, static_cast<std::size_t>(terminal_width())));
}

int run(const Arguments& arguments, Output& output) {
    const auto versions = of_versions::parse_versions(arguments.versions.value_or(""));
    const auto asked = arguments.on_cluster.questions();
    const auto job = arguments.job(asked ? std::optional(asked->first) : std::nullopt);
    check_names(arguments, job);
    auto right = true;
    auto list = Json::Array{};
    auto separator = "";
    for (auto& program : conversion::programs_of(job)) {
        const auto others = job.size() - program.given.size();
        if (!arguments.json) output.write(std::exchange(separator, "\n"));
        right &= answer(question_of(arguments, std::move(program), job.parts.size() == 1), arguments, asked,
                        others, list, output);
    }
    if (arguments.versions) answer_of_versions(versions, arguments.json, list, output);
    if (arguments.json) print_json(job, "programs", list, output);
    return right ? 0 : 1;
}

}  // namespace of_check

Subcommand check() {
    const auto arguments = std::make_shared<of_check::Arguments>();
    auto on_cluster = arguments->on_cluster.options();
    on_cluster.insert(
        on_cluster.begin(),
        {{"--over", "also declare this set of axes, such as dp,tp; may be repeated", &arguments->over,
          "AXES"},
         {"--axes", "single axes to declare, such as pp,tp, or none; default: all", &arguments->axes, "AXES"},
         one_of(of_check::engines(),
                {"--engine", "check only this engine; default: all", &arguments->engine, "ENGINE"}),
         {"--simulate", "simulate the join of all ranks, and print its cost", &arguments->simulate},
         {"--versions", "versions to compare with known faults, such as nccl=2.28.9,torch=2.13",
          &arguments->versions, "VERSIONS"}});
    return {
        .name = "check",
        .help = "Check limits, fit and communication cost of a mesh.",
        .options = arguments->options(std::move(on_cluster)),
        .run = [arguments](Output& output) { return of_check::run(*arguments, output); },
        .group = Group::plan,
        .examples =
            {"rankmesh check 'pp=4 dp=8 tp=8' --over dp,tp --axes pp,tp",
             "rankmesh check 'tp=8 dp=32' --on 'node:32(50GB/s,5us) gpu:8(450GB/s,2us)' --keep tp:node",
             "rankmesh check 'pp=16 dp=* tp=8' --world 65536 --simulate",
             "rankmesh check 'tp=8 dp=32' --versions nccl=2.28.9,torch=2.13"},
        .notes =
            "Exit status 1: an engine needs more than the limits of this process allow, the mesh does "
            "not fit on the cluster, or a rule does not hold.\n"
            "Without --keep, tp, etp, cp and ep must stay inside the level with the fastest links. cp or ep "
            "that does not fit there beside tp has no rule. docs/machines.md describes the model."};
}

}  // namespace rankmesh::cli
