// SPDX-License-Identifier: Apache-2.0
#include "convert/command_line.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <optional>
#include <utility>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/name.hpp>

#include "convert/shell_words.hpp"
#include "formats/limits.hpp"
#include "formats/text.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

using frameworks::holds;

const frameworks::Start& start_of(std::string_view framework) {
    static const auto unknown = frameworks::Start{};
    const auto found = std::ranges::find(frameworks::all(), framework, &frameworks::Framework::name);
    return found == frameworks::all().end() ? unknown : found->start;
}

namespace {

/// A program that starts others, and its flags that say how many: words, by spaces.
struct Launcher {
    std::string_view names;
    std::string_view ranks;  ///< of all hosts
    std::string_view hosts;
    std::string_view per_host;
    bool on_one_host = false;  ///< unless it is told more hosts
};

constexpr auto launchers = std::to_array<Launcher>({
    // torch.distributed.run
    {"torchrun torch.distributed.run torch.distributed.launch", "", "--nnodes", "--nproc-per-node", true},
    {"srun", "--ntasks -n", "--nodes -N", "--ntasks-per-node"},
    {"mpirun mpiexec", "-np --np -n", "", ""},
    {"ray uv conda docker podman apptainer singularity numactl taskset timeout nsys trtllm-llmapi-launch", "",
     "", ""},  // which start one command
});

/// Programs of frameworks without rows.
constexpr auto programs =
    std::to_array<std::string_view>({"trtllm-serve", "trtllm-bench", "trtllm-build", "nemo"});
constexpr auto prefixes =
    std::to_array<std::string_view>({"exec", "nohup", "setsid", "time", "env", "sudo", "eval"});

std::string_view file_of(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

/// The launcher of that name, a known one or a framework's.
std::optional<Launcher> launcher_named(std::string_view path) {
    const auto name = file_of(path);
    for (const auto& known : launchers)
        if (is_one_of(name, known.names)) return known;
    for (const auto& rows : frameworks::all())
        if (const auto& start = rows.start; is_one_of(name, start.launcher))
            return Launcher{start.launcher, start.ranks, start.hosts, start.per_host, true};
    return std::nullopt;
}

bool is_python(std::string_view word) {
    const auto name = file_of(word);
    return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos;
}

bool is_program(std::string_view word) {
    return word.ends_with(".py") || holds(programs, file_of(word)) ||
           std::ranges::any_of(frameworks::all(), [&](const auto& rows) {
               return is_one_of(file_of(word), rows.start.programs);
           });
}

/// The name of a container's image without its registry, tag and device: `vllm-openai` of
/// `vllm/vllm-openai-rocm:latest`.
std::string_view image_of(std::string_view word) {
    const auto name = file_of(word);
    auto image = name.size() == word.size() ? std::string_view() : name.substr(0, name.find_first_of(":@"));
    for (const std::string_view device : {"-rocm", "-cpu", "-tpu", "-xpu"})
        if (image.ends_with(device)) image.remove_suffix(device.size());
    return image;
}

/// True for a program that measures or asks a server.
bool is_client(const std::vector<std::string>& words, std::size_t program) {
    const auto name = file_of(words[program]);
    const auto word = [&](std::size_t behind) {
        return program + behind < words.size() ? std::string_view(words[program + behind]) : "";
    };
    return name.find("bench_serving") != name.npos || name.find("router") != name.npos ||
           (name.find('.') == name.npos &&
            (is_one_of(word(1), "chat complete collect-env") || (word(1) == "bench" && word(2) == "serve")));
}

/// NAME=VALUE with a name as variables of the environment have it.
bool is_variable(std::string_view word) {
    const auto name = word.substr(0, word.find('='));
    return name.size() < word.size() && !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
               return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
           });
}

/// The place of the first word that starts something; before it may be words whose values are not known.
std::size_t begin_of(const std::vector<std::string>& words) {
    auto at = std::size_t{0};
    const auto is_unknown_prefix = [&] {
        return words[at].find_first_not_of('"') == words[at].find('$') && at + 1 < words.size() &&
               !words[at + 1].starts_with('-');
    };
    while (at < words.size() && (is_variable(words[at]) || is_unknown_prefix() ||
                                 std::ranges::find(prefixes, words[at]) != prefixes.end()))
        ++at;
    return at;
}

std::string dashed(std::string_view flag) {
    auto text = std::string(flag);
    std::ranges::replace(text, '_', '-');
    return text;
}

}  // namespace

std::optional<int> number_of(const std::vector<std::string>& words, std::string_view flags) {
    auto number = std::optional<int>{};
    for (std::size_t i = 0; i < words.size(); ++i) {
        const auto equals = std::min(words[i].find('='), words[i].size());
        if (!is_one_of(dashed(words[i].substr(0, equals)), flags)) continue;
        number = equals < words[i].size() ? detail::number_in(words[i].substr(equals + 1))
                 : i + 1 < words.size()   ? detail::number_in(words[i + 1])
                                          : std::nullopt;
    }
    return number;
}

namespace {

/// The ranks that a launcher starts; of several launchers, `known` are those that the outer ones start.
std::optional<int> ranks_of(const Launcher& launcher, const std::vector<std::string>& words,
                            std::optional<int> known) {
    if (launcher.ranks.empty() && launcher.per_host.empty()) return known;
    if (!launcher.ranks.empty())
        if (const auto ranks = number_of(words, launcher.ranks)) return ranks;
    const auto hosts = number_of(words, launcher.hosts);
    const auto per_host = number_of(words, launcher.per_host);
    if (hosts && per_host) return *hosts * *per_host;
    // Unless a list of hosts or an outer launcher says more.
    const auto is_alone =
        launcher.on_one_host && !known && std::ranges::none_of(words, [&](const auto& word) {
            const auto flag = dashed(word.substr(0, word.find('=')));
            return is_one_of(flag, launcher.hosts) || is_one_of(flag, "--hostfile -H");
        });
    return is_alone ? per_host : std::nullopt;
}

}  // namespace

bool is_of_framework(std::string_view program, std::string_view framework) {
    if (program.starts_with(cat(framework, "."))) return true;
    const auto& programs_of = start_of(framework).programs;
    return is_one_of(file_of(program), programs_of) || is_one_of(image_of(program), programs_of);
}

CommandLine without_host(CommandLine command) {
    command.launcher.clear();
    const auto words = std::exchange(command.words, {});
    for (std::size_t i = 0; i < words.size(); ++i)
        if (const auto flag = dashed(words[i].substr(0, words[i].find('=')));
            !is_one_of(flag, "--node-rank --machine-rank"))
            command.words.push_back(words[i]);
        else if (flag.size() == words[i].size())
            ++i;
    return command;
}

bool is_configuration(std::string_view name) {
    for (const auto ending : {".json", ".toml", ".yaml", ".yml"})
        if (name.ends_with(ending)) return true;
    return false;
}

bool is_command(const std::vector<std::string>& words) {
    const auto at = begin_of(words);
    if (at >= words.size()) return false;
    const auto is_file = words[at].ends_with(".py") && at + 1 == words.size();  // which may hold settings
    const auto is_module = words[at].starts_with('$') && at + 1 < words.size() && words[at + 1] == "-m";
    return is_module || launcher_named(words[at]) || is_python(words[at]) ||
           (is_program(words[at]) && !is_file);
}

CommandLine taken_apart(const std::vector<std::string>& words) {
    auto command = CommandLine{};
    auto launcher = std::optional<Launcher>{};
    auto at = begin_of(words);
    const auto end_launcher = [&] {
        if (launcher) command.ranks = ranks_of(*launcher, command.launcher, command.ranks);
    };
    auto image = words.size();  // whose entry point is a program, if it is given none
    for (auto is_module = false; at < words.size(); ++at) {
        const auto& word = words[at];
        const auto is_value = at > 0 && words[at - 1].starts_with("--") &&
                              words[at - 1].find('=') == std::string::npos && !is_module;
        if (const auto other = is_value ? std::nullopt : launcher_named(word)) {
            end_launcher();
            launcher = other;
            command.launcher.clear();
        } else if (is_module || is_program(word)) {
            break;
        } else if (launcher && !is_python(word)) {
            command.launcher.push_back(word);
            if (!is_value && holds(command.launcher, "run") && is_program(image_of(word)))
                image = std::min(image, at);
        }
        is_module = word == "-m" || word == "--module";
    }
    end_launcher();
    const auto variables =
        std::vector(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(begin_of(words)));
    const auto has_hosts = [](const auto& word) { return word.starts_with("NNODES="); };
    if (const auto per_host = number_of(variables, "NPROC-PER-NODE"); per_host && !launcher)
        if (const auto hosts = std::ranges::any_of(variables, has_hosts) ? number_of(variables, "NNODES") : 1)
            command.ranks = *hosts * *per_host;  // for torchrun, which the program starts
    if (at == words.size()) at = image;
    if (at == words.size()) return command;
    command.program = words[at];
    if (is_client(words, at)) return {};
    // A program's own commands and models: `serve MODEL`.
    for (++at; at < words.size() && words[at].find_first_of("-+=") != 0 &&
               words[at].find('=') == std::string::npos && !is_configuration(words[at]);)
        ++at;
    command.words.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
    return command;
}

}  // namespace rankmesh::conversion
