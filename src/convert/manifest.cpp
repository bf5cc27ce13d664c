// SPDX-License-Identifier: Apache-2.0
// Manifests of Kubernetes and files of Docker Compose: the commands of their containers.
#include <algorithm>
#include <functional>
#include <optional>

#include "convert/manifest.hpp"
#include "convert/settings.hpp"
#include "formats/limits.hpp"

namespace rankmesh::conversion {

using formats::Json;

namespace {

const Json* in(const Json& table, std::string_view key) {
    return table.is_object() && table.contains(key) ? &table[key] : nullptr;
}

/// A number of pods. Throws UsageError for one that no cluster has.
int pods_in(const Json& table, std::string_view key, int otherwise) {
    constexpr auto most = 100'000;
    const auto* value = in(table, key);
    if (!value || !value->is_number_integer()) return otherwise;
    if (!(*value >= 0 && *value <= most))
        throw UsageError(cat("the manifest has ", key, ": ", value->dump(), "; it must be 0 to ", most));
    return value->get<int>();
}

/// Replaces what stands in a text until it is longer than any that is read.
std::string replaced(std::string text, std::string_view old, std::string_view by) {
    for (auto at = text.find(old); at != text.npos && text.size() <= formats::most_bytes;
         at = text.find(old, at + by.size()))
        text.replace(at, old.size(), by);
    return text;
}

std::string quoted(const std::string& word) { return cat("'", replaced(word, "'", "'\\''"), "'"); }

std::string written(const Json& value) { return value.is_string() ? value.text() : value.dump(); }

/// What a container's environment has: a list of `{name, value}` or of `NAME=VALUE`, or a table.
std::vector<std::pair<std::string, std::string>> variables_of(const Json& container) {
    auto variables = std::vector<std::pair<std::string, std::string>>{};
    for (const auto* key : {"env", "environment"}) {
        const auto* given = in(container, key);
        if (given && given->is_object())
            for (const auto& [name, value] : given->items()) variables.emplace_back(name, written(value));
        if (!given || !given->is_array()) continue;
        for (const auto& each : *given) {
            const auto text = written(each);
            const auto equals = text.find('=');
            if (in(each, "name") && in(each, "value"))
                variables.emplace_back(written(each["name"]), written(each["value"]));
            else if (each.is_string() && equals != text.npos)
                variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return variables;
}

/// The pods that a container is in: hosts of one job, which are started several times.
struct Pods {
    int jobs = 1;
    std::optional<int> hosts;  ///< nothing where each pod is a job
    std::string flags = {};    ///< that an operator or a chart adds to the server's
};

/// The flags that KServe, llm-d and vLLM's production stack make of the sizes in a node; "" for other nodes.
std::string flags_of(const Json& node) {
    const auto* table = in(node, "parallelism");
    const auto* own = in(node, "workerSpec");
    auto flags = std::string{};
    for (const std::string name : {"tensor", "pipeline", "data"}) {
        const auto* size = table ? in(*table, name) : in(own ? *own : node, name + "ParallelSize");
        if (size && (size->is_number_integer() || size->is_string()))
            flags += cat(" --", name, "-parallel-size ", written(*size));
    }
    const auto* expert = table ? in(*table, "expert") : nullptr;
    return expert && *expert == true ? flags + " --enable-expert-parallel" : flags;
}

class Containers {
public:
    Containers(std::string_view source, std::string_view framework)
        : source_(source), framework_(framework) {}

    /// Returns whether a container says what it starts.
    bool add_all_in(const Json& node, Pods pods) {
        auto found = false;
        if (node.is_array())
            for (const auto& each : node) found = add_all_in(each, pods) || found;
        if (!node.is_object()) return found;
        for (const auto* key : {"replicas", "replicaCount"})
            if (!pods.hosts) pods.jobs = pods_in(node, key, pods.jobs);
        if (const auto* deploy = in(node, "deploy")) pods.jobs = pods_in(*deploy, "replicas", pods.jobs);
        if (in(node, "numNodes")) pods.hosts = pods_in(node, "numNodes", 1);
        const auto flags = flags_of(node);
        if (!flags.empty()) pods.flags = flags;
        for (const auto* key : {"command", "args", "entrypoint"})
            if (const auto* words = in(node, key); words && (words->is_array() || words->is_string())) {
                add(node, pods);
                found = true;
                break;
            }
        for (const auto& [key, value] : node.items()) {
            auto inner = pods;
            if (key == "leaderWorkerTemplate") inner.hosts = pods_in(value, "size", 1);
            if (key.ends_with("ReplicaSpecs") && value.is_object()) {
                inner = {1, 0};
                for (const auto& [role, replica] : value.items())
                    *inner.hosts += pods_in(replica, "replicas", 1);
            }
            if (key != "initContainers" && key != "workerSpec") found = add_all_in(value, inner) || found;
        }
        if (!flags.empty() && !found) add(node, pods);
        return found && flags.empty();
    }

    ManifestLaunch launch() && {
        // Beside the job there are clients and web pages.
        const auto is_own = [&](const auto& each) { return is_of_framework(each.job.program, framework_); };
        if (std::ranges::any_of(found_, is_own)) std::erase_if(found_, std::not_fn(is_own));
        if (refused_ && (found_.empty() || is_own_refused_)) throw *refused_;
        if (found_.size() == 1) return std::move(found_.front());
        if (found_.empty())
            throw UsageError(cat(source_, " are a manifest, none of whose containers starts ", framework_,
                                 "; write the program's flags after --"));
        auto jobs = std::vector<std::string>{};
        for (const auto& each : found_) jobs.push_back(in_quotes(frameworks::joined(each.job.words, " ")));
        throw UsageError(cat(source_, " are a manifest, ", found_.size(),
                             " of whose containers start different jobs: ", detail::listed(jobs),
                             "; keep one of them"));
    }

private:
    void add(const Json& container, const Pods& pods) {
        const auto variables = variables_of(container);
        auto script = std::string{};
        for (const auto& [name, value] : variables) script += cat(name, "=", quoted(value), "\n");
        auto words = std::string{};
        for (const auto* key : {"entrypoint", "command", "args", "extraArgs"}) {
            const auto* given = in(container, key);
            if (given && given->is_string()) words += " " + replaced(given->text(), "\n", " ");
            if (given && given->is_array())
                for (const auto& each : *given) {
                    auto word = written(each);
                    for (const auto& [name, value] : variables)
                        word = replaced(word, cat("$(", name, ")"), value);
                    words += " " + quoted(word);
                }
        }
        words += pods.flags;
        if (script.size() + words.size() > formats::most_bytes)
            formats::Limits(source_).refuse(cat("expand to more than ", formats::most_bytes, " bytes"));
        try {
            // An image may be a framework's, with its server as the entry point, or one of the user's.
            const auto image = in(container, "image") ? written(container["image"]) : "";
            const auto started = cat(script, "docker run ", image, words);
            auto launch = ManifestLaunch{launch_of(started, source_, {}, framework_), pods.jobs};
            const auto& server = start_of(framework_);
            if (launch.words.empty() && server.by_itself && !server.programs.empty()) {
                const auto program = frameworks::words_of(server.programs).front();
                launch.words = launch_of(cat(script, program, words), source_, {}, framework_);
                if (std::ranges::none_of(launch.words, std::bind_front(&Containers::says_layout, this)))
                    return;
            }
            if (launch.words.empty()) return;
            add_host_count(launch.words, pods);
            launch.job = without_host(taken_apart(launch.words));
            // Servers that prefill and that decode differ in flags that place no rank.
            auto is_kept = true;
            if (has_all_flags(framework_))
                std::erase_if(launch.job.words, [&](const std::string& word) {
                    if (word.starts_with('-')) is_kept = says_layout(word);
                    return !is_kept && !is_configuration(word);
                });
            if (std::ranges::find(found_, launch.job, &ManifestLaunch::job) == found_.end())
                found_.push_back(std::move(launch));
        } catch (const UsageError& error) {
            const auto is_own = cat(script, words).find(framework_) != std::string::npos;
            if (is_own || !is_own_refused_) refused_ = error;
            is_own_refused_ = is_own_refused_ || is_own;
        }
    }

    /// True for a flag of the framework that says something of its layout.
    bool says_layout(const std::string& word) const {
        const auto name = plain_name(word.substr(0, word.find('=')));
        const auto rows = std::ranges::find(frameworks::all(), framework_, &frameworks::Framework::name);
        return is_one_of(class_of_flag(framework_, name), "places lost") ||
               (rows != frameworks::all().end() && std::ranges::any_of(rows->settings, [&](const auto& row) {
                    return row.name == name || is_one_of(name, row.flag);  // an alias, such as --tp
                }));
    }

    /// Operators tell torchrun the number of hosts by its environment.
    static void add_host_count(std::vector<std::string>& words, const Pods& pods) {
        const auto at = std::ranges::find_if(words, [](const std::string& word) {
            return word == "torchrun" || word.starts_with("torch.distributed.");
        });
        if (at != words.end() && pods.hosts &&
            std::ranges::none_of(words, [](const auto& word) { return word.starts_with("--nnodes"); }))
            words.insert(at + 1, cat("--nnodes=", *pods.hosts));
    }

    std::string_view source_;
    std::string_view framework_;
    std::vector<ManifestLaunch> found_;
    std::optional<UsageError> refused_;
    bool is_own_refused_ = false;  // for a command that names the framework
};

}  // namespace

bool is_manifest(const Json& values) {
    const auto* services = in(values, "services");
    const auto has_sizes = [](const auto& each) {  // a chart's
        const auto* sizes = in(each.second, "parallelism");
        return sizes && in(*sizes, "tensor");
    };
    return (in(values, "apiVersion") && in(values, "kind")) || (services && services->is_object()) ||
           in(values, "servingEngineSpec") ||
           (values.is_object() && std::ranges::any_of(values.items(), has_sizes));
}

ManifestLaunch launch_in(const Json& manifest, std::string_view source, std::string_view framework) {
    auto containers = Containers(source, framework);
    containers.add_all_in(manifest, {});
    return std::move(containers).launch();
}

}  // namespace rankmesh::conversion
