// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/job.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "plan/csv.hpp"
#include "plan/data.hpp"

namespace rankmesh::plan {

namespace of_job {

std::vector<Stack> read_stacks() {
    const auto csv = Csv(stacks_csv, "src/plan/data/stacks.csv");
    auto stacks = std::vector<Stack>{};
    for (std::size_t row = 0; row < csv.size(); ++row) {
        const auto value = [&](std::string_view column) { return csv.number(row, column).value_or(0); };
        const auto attention = csv.text(row, "attention");
        stacks.push_back({.name = std::string(csv.text(row, "framework")),
                          .attention = attention == "unfused"       ? Attention::unfused
                                       : attention == "early_flash" ? Attention::early_flash
                                       : attention == "flash"       ? Attention::flash
                                                                    : Attention::newest,
                          .scale = value("scale"),
                          .tp_hidden = value("tp_hidden"),
                          .overlaps = value("overlaps") > 0,
                          .gradient_bytes = value("gradient_bytes"),
                          .gradient_memory = value("gradient_memory"),
                          .logit_bytes = value("logit_bytes"),
                          .elementwise = value("elementwise"),
                          .hop = value("hop_us") * 1e-6,
                          .shard_latency = value("shard_latency_ms") * 1e-3,
                          .tokens_once = value("tokens_once") > 0,
                          .expert_launch = value("expert_launch_ms") * 1e-3,
                          .reserved = value("reserved"),
                          .overhead = static_cast<std::int64_t>(value("overhead_gib") * 1073741824.0),
                          .source = std::string(csv.text(row, "source"))});
    }
    return stacks;
}

struct Type {
    std::string_view name;
    double bytes;
};
constexpr auto types = std::array<Type, 6>{
    {{"bf16", 2},
     {"fp8", 1},
     {"int8", 1},
     {"nvfp4", 0.5 + 1.0 / 16},    // a scale in FP8 for 16 numbers
     {"mxfp4", 0.5 + 1.0 / 32},    // a scale of a byte for 32 numbers (OCP Microscaling Formats 1.0)
     {"int4", 0.5 + 2.5 / 128}}};  // a scale of two bytes and a zero of half a byte for 128 (GPTQ, AWQ)

}  // namespace of_job

double bytes(Precision precision) { return of_job::types[static_cast<std::size_t>(precision)].bytes; }

std::string_view to_string(Precision precision) {
    return of_job::types[static_cast<std::size_t>(precision)].name;
}

std::optional<Precision> precision_of(std::string_view name) {
    const auto found = std::ranges::find(of_job::types, name, &of_job::Type::name);
    if (found == of_job::types.end()) return std::nullopt;
    return static_cast<Precision>(found - of_job::types.begin());
}

std::span<const Stack> stacks() {
    static const auto all = of_job::read_stacks();
    return all;
}

const Stack& stack(std::string_view framework) {
    const auto* best = &stacks().front();
    auto longest = std::size_t{0};
    for (const auto& one : stacks())
        if (begins_with(framework, one.name) && one.name.size() > longest) {
            best = &one;
            longest = one.name.size();
        }
    return *best;
}

Machine machine(const Cluster& cluster, const Device& device) {
    check(device);
    const auto levels = cluster.levels();
    auto machine = Machine{.device = device,
                           .node = levels.back().count,
                           .scale_up = levels.back().bandwidth.value_or(device.scale_up_bandwidth),
                           .scale_out = device.scale_out_bandwidth};
    // The devices of a node share its link.
    if (levels.size() > 1)
        if (const auto& link = levels[levels.size() - 2].bandwidth)
            machine.scale_out = *link / levels.back().count;
    if (levels.size() > 1 && machine.scale_out <= 0)
        throw UsageError(cat("the cluster '", to_string(cluster), "' does not say what the link of one ",
                             in_quotes(levels[levels.size() - 2].name), " carries, and ",
                             in_quotes(device.name), " has no typical one; add it, such as ",
                             levels[levels.size() - 2].name, ":", levels[levels.size() - 2].count,
                             "(400GB/s)"));
    if (machine.scale_out <= 0) machine.scale_out = machine.scale_up;
    return machine;
}

void check(const Job& job) {
    check(job.model);
    check(job.machine.device);
    const auto refuse = [](const char* what, auto value, const char* takes) {
        throw UsageError(cat("the job has ", what, " ", value, "; it takes ", takes));
    };
    if (job.machine.node < 1) refuse("devices of a node:", job.machine.node, "1 or more");
    for (const auto& [what, value] : {std::pair{"a scale-up bandwidth of", job.machine.scale_up},
                                      std::pair{"a scale-out bandwidth of", job.machine.scale_out}})
        if (!(value > 0) || value > 1e21) refuse(what, value, "bytes a second above 0, at most 1e21");
    if (job.devices < 1) refuse("devices:", job.devices, "1 or more");
    constexpr auto most_tokens = std::int64_t{1} << 40;
    if (job.sequence < 1 || job.sequence > (std::int64_t{1} << 30))
        refuse("a sequence of tokens:", job.sequence, "1 to 2^30");
    if (job.batch < 1 || job.batch > most_tokens) refuse("a batch of sequences:", job.batch, "1 to 2^40");
    const auto& stack = job.stack;
    for (const auto& [what, value] :
         {std::pair{"a scale of", stack.scale}, std::pair{"reserved bytes of", stack.reserved}})
        if (!(value > 0) || value > 1e6) refuse(what, value, "more than 0 and at most 1e6");
    if (!(stack.tp_hidden >= 0 && stack.tp_hidden <= 1))
        refuse("a hidden share of", stack.tp_hidden, "0 to 1");
}

}  // namespace rankmesh::plan
