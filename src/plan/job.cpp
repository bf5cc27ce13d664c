// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/job.hpp>

#include <array>
#include <cmath>

#include <rankmesh/core/detail/number.hpp>

#include "plan/csv.hpp"

namespace rankmesh::plan {

Csv::Csv(std::string_view text, std::string_view file) : file_(file) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    for (auto number = std::size_t{1}; !text.empty(); ++number) {
        auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty()) continue;
        auto fields = std::vector<std::string>(1);
        auto quoted = false;
        for (std::size_t i = 0; i < line.size(); ++i) {
            if (quoted && line.substr(i).starts_with("\"\""))
                fields.back() += line[++i];
            else if (line[i] == '"' && (quoted || fields.back().empty()))
                quoted = !quoted;
            else if (line[i] == ',' && !quoted)
                fields.emplace_back();
            else
                fields.back() += line[i];
        }
        if (quoted) throw UsageError(cat(file_, ":", number, ": has a quote that does not end"));
        lines_.push_back({number, std::move(fields)});
    }
    if (lines_.empty()) throw UsageError(cat(file_, ": is empty; the first line names the columns"));
    columns_ = std::move(lines_.front().fields);
    lines_.erase(lines_.begin());
    for (const auto& one : lines_)
        if (one.fields.size() != columns_.size())
            throw UsageError(cat(file_, ":", one.number, ": has ", counted(one.fields.size(), "field"),
                                 ", but the first line names ", columns_.size()));
    for (auto column = columns_.begin(); column != columns_.end(); ++column)
        if (std::find(columns_.begin(), column, *column) != column)
            throw UsageError(cat(file_, ":1: names the column ", in_quotes(*column), " twice"));
}

int Csv::find(std::string_view column) const {
    const auto found = std::ranges::find(columns_, column);
    return found == columns_.end() ? -1 : static_cast<int>(found - columns_.begin());
}

void Csv::require(const std::vector<std::string_view>& columns) const {
    for (const auto column : columns)
        if (find(column) < 0) throw UsageError(cat(file_, ":1: has no column ", in_quotes(column)));
}

std::string_view Csv::text(std::size_t row, std::string_view column) const {
    const auto at = find(column);
    return at < 0 ? std::string_view{} : std::string_view(lines_[row].fields[static_cast<std::size_t>(at)]);
}

std::optional<double> Csv::number(std::size_t row, std::string_view column) const {
    const auto field = text(row, column);
    if (field.empty() || field == "?") return {};
    const auto value = detail::number_in<double>(field);
    if (!value || !std::isfinite(*value) || *value < 0)
        throw UsageError(cat(place(row), ": has ", in_quotes(field), " as ", column,
                             ", which is not a number of 0 or more"));
    return value;
}

std::optional<std::int64_t> Csv::count(std::size_t row, std::string_view column, std::int64_t most) const {
    const auto value = number(row, column);
    if (!value) return {};
    if (*value != std::floor(*value) || *value > static_cast<double>(most))
        throw UsageError(cat(place(row), ": has ", in_quotes(text(row, column)), " as ", column,
                             ", which is not a whole number from 0 to ", most));
    return static_cast<std::int64_t>(*value);
}

std::string Csv::place(std::size_t row) const { return cat(file_, ":", lines_[row].number); }

void check(const Device& device) {
    using Constant = std::pair<const char*, double>;
    const auto refuse = [&](const Constant& constant, const char* takes) {
        throw UsageError(cat("the device ", in_quotes(device.name), " has ", constant.first, " ",
                             constant.second, "; it takes ", takes));
    };
    for (const auto& constant : {Constant{"a matrix rate of", device.dense_rate},
                                 Constant{"a measured matrix rate of", device.gemm_rate},
                                 Constant{"a memory of", static_cast<double>(device.memory)},
                                 Constant{"a memory bandwidth of", device.memory_bandwidth},
                                 Constant{"a scale-up bandwidth of", device.scale_up_bandwidth}})
        if (!(constant.second > 0) || constant.second > 1e21)
            refuse(constant, "more than 0 and at most 1e21");
    for (const auto& constant : {Constant{"an fp8 rate of", device.fp8_rate},
                                 Constant{"a scale-out bandwidth of", device.scale_out_bandwidth}})
        if (!(constant.second >= 0) || constant.second > 1e21) refuse(constant, "0 to 1e21");
    if (!(device.sustained > 0) || device.sustained > 2)
        refuse({"a sustained share of", device.sustained}, "more than 0 and at most 2");
    if (device.scale_up_size < 1) refuse({"a scale-up size of", device.scale_up_size}, "1 or more");
}

bool is_named(const Device& device, std::string_view name) {
    return same_name(device.name, name) ||
           std::ranges::any_of(device.aliases, [&](const auto& alias) { return same_name(alias, name); });
}

/// The assumed best matrix product as a fraction of the data sheet, see docs/plan-model.md.
constexpr auto unmeasured_gemm = 0.8;

std::vector<Device> read_devices(std::string_view text, std::string_view file) {
    const auto csv = Csv(text, file);
    csv.require({"device", "bf16_dense_tflops", "fp8_dense_tflops", "hbm_gb", "hbm_tb_s",
                 "scaleup_gb_s_per_dir", "scaleup_size", "scaleout_gb_s_per_gpu", "gemm_achieved_tflops",
                 "source"});
    auto devices = std::vector<Device>{};
    for (std::size_t row = 0; row < csv.size(); ++row) {
        const auto value = [&](std::string_view column) { return csv.number(row, column).value_or(0); };
        auto device = Device{.name = std::string(csv.text(row, "device")),
                             .dense_rate = value("bf16_dense_tflops") * 1e12,
                             .fp8_rate = value("fp8_dense_tflops") * 1e12,
                             .gemm_rate = value("gemm_achieved_tflops") * 1e12,
                             .sustained = csv.number(row, "sustained").value_or(1),
                             .memory = std::llround(std::min(value("hbm_gb"), 1e9) * 1e9),
                             .memory_bandwidth = value("hbm_tb_s") * 1e12,
                             .scale_up_size = static_cast<int>(csv.count(row, "scaleup_size").value_or(1)),
                             .scale_up_bandwidth = value("scaleup_gb_s_per_dir") * 1e9,
                             .scale_out_bandwidth = value("scaleout_gb_s_per_gpu") * 1e9,
                             .bf16 = csv.number(row, "bf16").value_or(1) > 0,
                             .measured = csv.number(row, "measured").value_or(1) > 0,
                             .source = std::string(csv.text(row, "source"))};
        for_each_word(csv.text(row, "aliases"),
                      [&](std::string_view word) { device.aliases.emplace_back(word); });
        if (device.gemm_rate == 0) device.gemm_rate = unmeasured_gemm * device.dense_rate;
        if (device.scale_up_bandwidth == 0) continue;  // the network is not a tree of switches
        check_at(csv.place(row), device);
        devices.push_back(std::move(device));
    }
    return devices;
}

std::span<const Device> devices() {
    static const auto all = read_devices(devices_csv, "src/plan/data/devices.csv");
    return all;
}

const Device& device(std::string_view name) {
    const auto all = devices();
    const auto found = std::ranges::find_if(all, [&](const Device& one) { return is_named(one, name); });
    if (found != all.end()) return *found;
    // `H200` is `H200-SXM-141GB`; `A100` may be several.
    auto similar = std::vector<std::string>{};
    for (const auto& one : all)
        if (begins_with(one.name, cat(name, "-")) || begins_with(one.name, cat("RTX-", name)))
            similar.push_back(one.name);
    if (similar.size() == 1) return *std::ranges::find(all, similar.front(), &Device::name);
    if (!similar.empty())
        throw UsageError(cat(in_quotes(name), " is one of ", detail::listed(similar), "; name one"));
    const auto names = names_of(all);
    throw UsageError(
        cat("unknown device ", in_quotes(name), did_you_mean(name, names), "; devices are ", listed(names)));
}

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
    return *std::ranges::max_element(stacks(), {}, [&](const Stack& one) {
        return begins_with(framework, one.name) ? one.name.size() : 0;
    });
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
