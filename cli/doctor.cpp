// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <rankmesh/engine/built.hpp>
#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/nccl.hpp>

#include "cluster/read/read.hpp"
#include "doctor_steps.hpp"
#include "explain/read/versions.hpp"
#include "formats/text.hpp"
#include "output.hpp"
#include "topology.hpp"

extern char** environ;

namespace rankmesh::cli {

namespace of_doctor {

/// The most ranks of a step, because most failures on more GPUs also occur on eight.
constexpr auto most_ranks = 8;

struct Arguments {
    std::optional<int> gpus;
    double timeout = 60;
    bool json = false;
};

struct Fact {
    std::string name;
    std::string text;
};

std::string first_line(const char* path) {
    auto line = std::string{};
    auto file = std::ifstream(path);
    std::getline(file, line);
    return line;
}

std::string limit_text(int which) {
    auto limit = rlimit{};
    if (getrlimit(static_cast<__rlimit_resource_t>(which), &limit) != 0) return "unknown";
    return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

std::string host_text() {
    auto system = utsname{};
    if (uname(&system) != 0) return "unknown";
    auto text = fmt::format("{} {} {}, {} processors", system.sysname, system.release, system.machine,
                            std::thread::hardware_concurrency());
    auto error = std::error_code{};
    const auto shared = std::filesystem::space("/dev/shm", error);
    if (!error) text += fmt::format(", {} MiB free in /dev/shm", shared.available >> 20);
    return text;
}

/// Returns the environment variables of NCCL, CUDA and rankmesh; secrets without values.
std::vector<Fact> variables() {
    auto found = std::vector<Fact>{};
    for (auto** each = environ; *each != nullptr; ++each) {
        const auto text = std::string_view(*each);
        const auto name = text.substr(0, text.find('='));
        const auto is_ours = std::ranges::any_of(
            std::initializer_list<std::string_view>{"NCCL_", "CUDA_", "RANKMESH_", "UCX_", "TORCH_NCCL_"},
            [&](std::string_view prefix) { return name.starts_with(prefix); });
        if (!is_ours) continue;
        const auto is_secret =
            name.find("SECRET") != std::string_view::npos || name.find("PASSWORD") != std::string_view::npos;
        found.push_back(
            {std::string(name), is_secret ? "(set)" : std::string(text.substr(text.find('=') + 1))});
    }
    std::ranges::sort(found, {}, &Fact::name);
    return found;
}

/// True if NCCL was told to take several ranks on one GPU, as it can from version 2.30.
bool may_share_a_gpu() {
    const auto* text = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return text != nullptr && std::string_view(text) != "0";
}

/// Returns why the ranks of the launcher on this host cannot each have a GPU; "": they can, or it is not
/// known.
std::string visible_problem(int devices) {
    for (const auto* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"}) {
        const auto* text = std::getenv(name);
        if (text == nullptr) continue;
        const auto ranks = std::atoi(text);
        if (ranks > devices && !may_share_a_gpu())
            return fmt::format("{} is {}, but each process sees {}; NCCL does not allow two ranks on one GPU",
                               name, ranks, detail::counted(devices, "GPU"));
        return {};
    }
    return {};
}

/// Returns the NCCL software of this machine. Runs in a child, because a crashing library must not end this
/// process.
nccl::Software software_of(double timeout) {
    const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1e3));
    const auto trial = run_in_children(1, limit, [](int, const Say& say) {
        say("loading NCCL and CUDA's runtime");
        const auto found = nccl::software();
        return fmt::format("{}\t{}\t{}\t{}\t{}", found.nccl, found.runtime, found.driver, found.devices,
                           found.problem);
    });
    if (!trial.ok) return {{}, {}, {}, 0, trial.text};
    const auto words = formats::split(trial.text, '\t');
    const auto word = [&](std::size_t i) { return std::string(words[i]); };
    return {word(0), word(1), word(2), std::atoi(word(3).c_str()), word(4)};
}

std::string or_absent(const std::string& text) { return text.empty() ? "not found" : text; }

/// Prints a name and a version a line, such as `Python 3.11.2`.
constexpr auto version_command = R"(exec 2>/dev/null
c++ --version | sed -n '1 { /clang/ s/.*version \([0-9.]*\).*/Clang \1/p; t; s/.* /GCC /p }'
python3 -c 'import platform; print("Python", platform.python_version(), flush=True)
import importlib.metadata; print("PyTorch", importlib.metadata.version("torch"))')";

std::string output_of_command() {
    auto text = std::string{};
    auto piece = std::array<char, 256>{};
    const auto pipe = std::unique_ptr<FILE, int (*)(FILE*)>(popen(version_command, "r"), pclose);
    while (pipe && std::fgets(piece.data(), piece.size(), pipe.get()) != nullptr) text += piece.data();
    return text;
}

/// Returns the versions of the libraries that rankmesh was built with, of the `python3` and `c++` of PATH,
/// and of that Python's PyTorch. `nccl` is the version of NCCL; "": none.
of_versions::Versions found_versions(const std::string& nccl) {
    auto lines = output_of_command();
    for (const auto& [engine, library] : built_engines())
        if (engine != "nccl") lines += library + "\n";  // of NCCL, it is the header's
    if (!nccl.empty()) lines += "NCCL " + nccl;
    auto versions = of_versions::Versions{};
    for (const auto line : formats::split(lines, '\n'))
        for (const auto& library : of_versions::libraries)
            if (line.starts_with(std::string(library.name) + " "))
                versions.emplace_back(library.key, line.substr(line.find_first_of("0123456789")));
    return versions;
}

/// Adds the versions, and what is known of them.
void add_versions(const std::string& nccl, std::vector<Fact>& rows) {
    const auto versions = found_versions(nccl);
    auto system = utsname{};
    uname(&system);
    auto names = std::vector<std::string>{};
    for (const auto& [key, version] : versions) names.push_back(fmt::format("{}={}", key, version));
    rows.push_back({"versions", joined(names, ",")});
    if (auto warning = of_versions::untested(versions); !warning.empty())
        rows.push_back({"warning", warning});
    for (const auto* fault : of_versions::faults_of(versions, system.machine))
        rows.push_back({"known fault", of_versions::text_of(*fault)});
}

std::vector<Fact> facts(const nccl::Software& found) {
    auto rows =
        std::vector<Fact>{{"rankmesh", fmt::format("{}; {}", RANKMESH_VERSION, engines_text())},
                          {"host", host_text()},
                          {"limits", fmt::format("{} open files, {} bytes of locked memory",
                                                 limit_text(RLIMIT_NOFILE), limit_text(RLIMIT_MEMLOCK))}};
    const auto driver = first_line("/proc/driver/nvidia/version");
    rows.push_back({"driver", or_absent((found.driver.empty() ? "" : "supports CUDA " + found.driver) +
                                        (driver.empty() ? "" : "; " + driver))});
    rows.push_back({"CUDA runtime", or_absent(found.runtime)});
    rows.push_back({"NCCL", or_absent(found.nccl)});
    for (const auto& [engine, library] : built_engines())
        if (engine == "nccl" && !library.empty())
            rows.back().text += fmt::format("; built with the header of {}", library);
    auto gpus = fmt::format("{}", found.devices);
    try {
        if (found.devices > 0) {
            const auto seen = cluster_files::see_here();
            if (seen.by != "hwloc") gpus += fmt::format("; {}, seen by {}", to_string(seen.cluster), seen.by);
        }
    } catch (const Error&) {  // the machine cannot be described
    }
    rows.push_back({"GPUs", gpus});
    add_versions(found.nccl, rows);
    for (auto& variable : variables()) rows.push_back(std::move(variable));
    if (!found.problem.empty()) rows.push_back({"problem", found.problem});
    if (const auto problem = visible_problem(found.devices); found.devices > 0 && !problem.empty())
        rows.push_back({"problem", problem});
    return rows;
}

std::vector<Outcome> run_steps(const Arguments& arguments, const nccl::Software& found) {
    auto outcomes = std::vector<Outcome>{};
    const auto ranks = arguments.gpus.value_or(std::min(found.devices, most_ranks));
    auto progress = Progress();
    for (const auto& step : steps()) {
        auto why_not = std::string{};
        if (!found.problem.empty() || found.devices == 0)
            why_not = "NCCL or a GPU is missing";
        else if (ranks < 2)
            why_not = "it requires 2 GPUs";
        else if (step.loses_a_rank && !gloo::is_built())
            why_not = "it requires the engine gloo";
        if (!why_not.empty()) {
            outcomes.push_back({step.name, "not run", 0, why_not});
            continue;
        }
        progress.now(fmt::format("{}: {} on {} GPUs", step.name, step.help, ranks));
        outcomes.push_back(run_in_ranks(step, ranks, arguments.timeout));
    }
    return outcomes;
}

Json json_of(const std::vector<Fact>& facts, const std::vector<Outcome>& outcomes, bool ok) {
    auto out = Json{{"ok", ok}, {"facts", Json::array()}, {"steps", Json::array()}};
    for (const auto& fact : facts) out["facts"].push_back({{"name", fact.name}, {"text", fact.text}});
    for (const auto& each : outcomes)
        out["steps"].push_back({{"name", each.step},
                                {"state", each.state},
                                {"seconds", each.seconds},
                                {"text", each.text},
                                {"log", each.log}});
    return out;
}

/// Indents each line by so many blanks.
std::string indented(const std::string& text, std::size_t by) {
    auto result = std::string{};
    for (const auto letter : text) {
        result += letter;
        if (letter == '\n') result += std::string(by, ' ');
    }
    while (!result.empty() && (result.back() == ' ' || result.back() == '\n')) result.pop_back();
    return result;
}

std::string verdict(const std::vector<Outcome>& outcomes) {
    const auto is = [](const char* state) {
        return [state](const Outcome& each) { return each.state == state; };
    };
    if (std::ranges::any_of(outcomes, is("failed")))
        return "NCCL does not work here; include all of this text in an issue";
    const auto left_out = std::ranges::find_if(outcomes, is("not run"));
    if (left_out != outcomes.end()) return fmt::format("NCCL was not checked: {}", left_out->text);
    return "NCCL works on these GPUs";
}

void print(const std::vector<Fact>& facts, const std::vector<Outcome>& outcomes, Output& output) {
    auto width = std::size_t{0};
    for (const auto& fact : facts) width = std::max(width, fact.name.size());
    for (const auto& fact : facts)
        output.print("{:<{}}  {}\n", fact.name, width, indented(fact.text, width + 2));
    output.write("\n");
    for (const auto& each : outcomes) {
        output.print("{:<7}  {:<10}", each.state, each.step);
        if (each.state != "not run") output.print("  {:>9}", time_text(each.seconds));
        if (!each.text.empty()) output.print("  {}", indented(each.text, 9));
        output.write("\n");
        if (!each.log.empty()) output.print("         {}\n", indented(each.log, 9));
    }
    output.print("\n{}\n", verdict(outcomes));
}

int run(const Arguments& arguments, Output& output) {
    const auto found = software_of(arguments.timeout);
    if (arguments.gpus && found.devices > 0 && *arguments.gpus > found.devices && !may_share_a_gpu())
        throw UsageError(
            fmt::format("--gpus is {}, but this process sees {}; check CUDA_VISIBLE_DEVICES, or set "
                        "NCCL_MULTI_RANK_GPU_ENABLE=1 for several ranks on a GPU (NCCL 2.30 and later)",
                        *arguments.gpus, found.devices));
    const auto outcomes = run_steps(arguments, found);
    const auto ok = std::ranges::all_of(outcomes, [](const Outcome& each) { return each.state == "ok"; });
    const auto rows = facts(found);
    if (arguments.json)
        output.print("{}\n", json_of(rows, outcomes, ok).dump());
    else
        print(rows, outcomes, output);
    return ok ? 0 : 1;
}

}  // namespace of_doctor

Subcommand doctor() {
    const auto arguments = std::make_shared<of_doctor::Arguments>();
    return {.name = "doctor",
            .help = "Check NCCL on the GPUs of this machine: versions, links, and each step of the engine.",
            .options = {{"--gpus", "number of GPUs, one rank each; default: all, at most 8", &arguments->gpus,
                         "N", Option::Range{1, 1024}},
                        {"--timeout", "timeout of each step, in seconds; default: 60", &arguments->timeout,
                         "S", Option::Range{1, 3600}},
                        {"--json", "print JSON; docs/json.md describes it", &arguments->json}},
            .run = [arguments](Output& output) { return of_doctor::run(*arguments, output); },
            .group = Group::run,
            .examples = {"rankmesh doctor > report.txt"},
            .notes = "Exit status 1: a step failed or did not run."};
}

}  // namespace rankmesh::cli
