// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/rows.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "plan/csv.hpp"

namespace rankmesh::plan::score {

using detail::cat;
using detail::in_quotes;

namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool digit(char c) { return c >= '0' && c <= '9'; }

/// The number whose last digit stands before `end`, nothing where there is none.
std::optional<double> number_before(std::string_view text, std::size_t end) {
    auto begin = end;
    while (begin > 0 && end - begin < 9 && digit(text[begin - 1])) --begin;
    auto value = 0.0;
    if (begin == end || std::from_chars(text.data() + begin, text.data() + end, value).ec != std::errc{})
        return {};
    return value;
}

/// The number that follows `name`, nothing where there is none.
std::optional<double> number_after(std::string_view text, std::string_view name) {
    const auto at = text.find(name);
    if (at == std::string_view::npos) return {};
    auto value = 0.0;
    const auto begin = at + name.size();
    if (std::from_chars(text.data() + begin, text.data() + text.size(), value).ec != std::errc{} ||
        !std::isfinite(value))
        return {};
    return value;
}

/// Bytes a second of a whole node between nodes, as a row's words say it: `4x100Gb` or `400 Gbps per node`.
std::optional<double> fabric(std::string_view words) {
    for (auto at = words.find("Gb"); at != std::string_view::npos; at = words.find("Gb", at + 1)) {
        const auto after = words.substr(at);
        if (after.starts_with("Gbps node-node") || after.starts_with("Gbps per node")) {
            if (at > 0 && words[at - 1] == ' ')
                if (const auto rate = number_before(words, at - 1)) return *rate / 8 * 1e9;
        } else if (const auto rate = number_before(words, at)) {
            auto cross = at;
            while (cross > 0 && digit(words[cross - 1])) --cross;
            if (cross > 0 && words[cross - 1] == 'x')
                if (const auto links = number_before(words, cross - 1)) return *links * *rate / 8 * 1e9;
        }
    }
    return {};
}

/// CRC-32, as gzip has it.
std::uint32_t hash(std::string_view text) {
    auto value = ~std::uint32_t{0};
    for (const auto c : text) {
        value ^= static_cast<unsigned char>(c);
        for (int bit = 0; bit < 8; ++bit) value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xedb88320U : 0U);
    }
    return ~value;
}

template <class Known, class More, class IsIt>
const auto* find(const Known& known, const More& more, const IsIt& is_it) {
    using One = typename More::value_type;
    const One* found = nullptr;
    for (const auto& one : known)
        if (found == nullptr && is_it(one)) found = &one;
    for (const auto& one : more)
        if (found == nullptr && is_it(one)) found = &one;
    return found;
}

/// The framework as a row's words describe it.
Stack stack_of(const std::string& framework, std::string_view words, std::string_view precision) {
    auto found = stack(framework);
    if (has(words, "async TP") || has(words, "AsyncTP") || has(words, "TP comm overlap on"))
        found.tp_hidden = 0.828;
    if (has(words, "eager")) found.elementwise = 4;  // where nothing is fused
    if (has(words, "DeepEP")) found.tokens_once = true;
    if (has(precision, "PURE")) found.gradient_bytes = 2;
    // Jean Zay was 4 % slower before its nodes were mended.
    if (has(framework, "JeanZay") && has(words, "after node")) found.scale /= 1.04;
    if (has(words, "BF16Optimizer")) {
        found.gradient_bytes = 4;
        found.gradient_memory = 6;
    }
    return found;
}

}  // namespace

Table read(std::string_view text, std::string_view file, const Known& beside) {
    const auto csv = Csv(text, file);
    csv.require({"row_id",     "source_id",
                 "source_ref", "grade",
                 "model",      "layers_override",
                 "seq",        "device",
                 "gpus",       "gpus_per_node",
                 "tp",         "cp",
                 "ep",         "pp",
                 "vpp",        "dp",
                 "zero",       "mbs",
                 "gbs",        "seq_parallel",
                 "recompute",  "precision",
                 "framework",  "step_time_s",
                 "mfu_pct",    "hfu_pct",
                 "mem_gib",    "mem_kind",
                 "oom",        "flags"});
    auto table = Table{};
    for (std::size_t i = 0; i < csv.size(); ++i) {
        const auto count = [&](std::string_view column) {
            return static_cast<int>(csv.count(i, column).value_or(0));
        };
        const auto words = cat(csv.text(i, "flags"), " ", csv.text(i, "source_ref"));
        auto row = Row{.name = std::string(csv.text(i, "row_id")),
                       .family = std::string(csv.text(i, "source_id")),
                       .complete = csv.text(i, "grade") == "A",
                       .seconds = csv.number(i, "step_time_s"),
                       .memory = csv.number(i, "mem_gib")};
        if (row.seconds == 0.0) throw UsageError(cat(csv.place(i), ": has a step time of 0"));
        if (row.memory == 0.0) throw UsageError(cat(csv.place(i), ": has a memory of 0"));
        if (const auto oom = csv.count(i, "oom", 1)) row.out_of_memory = *oom == 1;
        row.kept_back = hash(row.name) % 10 < 3;
        const auto leave_out = [&](std::string why) { ++table.left_out[std::move(why)]; };

        auto& layout = row.layout;
        layout = {.tp = count("tp"),
                  .cp = count("cp"),
                  .ep = count("ep"),
                  .pp = count("pp"),
                  .vpp = std::max(1, count("vpp")),
                  .dp = count("dp")};
        layout.micro_batch = std::max(1, count("mbs"));
        layout.sequence_parallel = count("seq_parallel") == 1;
        const auto zero = csv.text(i, "zero");
        // "dist-opt?" and nothing: the optimizer's state is taken to be sharded.
        layout.zero = !zero.empty() && zero[0] >= '0' && zero[0] <= '3' ? zero[0] - '0' : 1;
        const auto gpus = count("gpus");
        const auto node = count("gpus_per_node");
        if (const auto group = number_after(zero, "group "); group && *group >= 1 && *group <= gpus)
            layout.zero_group = static_cast<int>(*group);
        if (has(zero, "HSDP")) layout.zero_group = node;
        const auto batch = csv.count(i, "gbs", std::int64_t{1} << 40).value_or(0);
        const auto sequence = csv.count(i, "seq", std::int64_t{1} << 30).value_or(0);
        const auto layers = count("layers_override");
        const auto mfu = csv.number(i, "mfu_pct").value_or(0), hfu = csv.number(i, "hfu_pct").value_or(0);

        if (!row.seconds && !row.memory && row.out_of_memory != true) {
            leave_out("nothing was measured");
            continue;
        }
        const auto* model =
            find(models(), beside.models, [&](const auto& one) { return one.name == csv.text(i, "model"); });
        // The box of this source is slower than other B200, see devices.csv.
        const auto kind = cat(csv.text(i, "device"), row.family == "simumax-b200" ? "-SimuMax" : "");
        const auto* device =
            find(devices(), beside.devices, [&](const auto& one) { return is_named(one, kind); });
        if (device == nullptr)
            device = find(devices(), beside.devices,
                          [&](const auto& one) { return is_named(one, csv.text(i, "device")); });
        if (model == nullptr) {
            leave_out(cat("the shape of ", in_quotes(csv.text(i, "model")), " is not known"));
            continue;
        }
        if (device == nullptr) {
            leave_out(cat("the device ", in_quotes(csv.text(i, "device")), " is not known"));
            continue;
        }
        if (std::min({layout.tp, layout.cp, layout.ep, layout.pp, layout.dp, gpus, node}) < 1 || batch < 1 ||
            sequence < 1) {
            leave_out("a size is not stated");
            continue;
        }
        if (std::int64_t{layout.tp} * layout.cp * layout.pp * layout.dp != gpus)
            throw UsageError(cat(csv.place(i), ": has tp*cp*pp*dp=",
                                 std::int64_t{layout.tp} * layout.cp * layout.pp * layout.dp, ", but ", gpus,
                                 " gpus"));
        auto& job = row.job;
        job.model = *model;
        if (layers > 0) {
            // Of a model of a few layers one of those in front that differ is left.
            auto left = layers;
            job.model.runs.clear();
            for (const auto& run : model->runs) {
                const auto front = &run == &model->runs.front() && model->runs.size() > 1;
                const auto taken =
                    std::min({left, front ? 1 : left, &run == &model->runs.back() ? left : run.count});
                if (taken > 0) job.model.add(taken, model->kinds[static_cast<std::size_t>(run.kind)]);
                left -= taken;
            }
        }
        if (layout.pp > job.model.layers())
            throw UsageError(
                cat(csv.place(i), ": has pp=", layout.pp, " for ", job.model.layers(), " layers"));
        const auto framework = std::string(csv.text(i, "framework"));
        const auto precision = csv.text(i, "precision");
        job.machine = {.device = *device,
                       .node = device->scale_up_size > 8 ? device->scale_up_size : node,
                       .scale_up = device->scale_up_bandwidth,
                       .scale_out = device->scale_out_bandwidth > 0 ? device->scale_out_bandwidth : 25e9};
        if (const auto bandwidth = fabric(words); bandwidth && *bandwidth > 0)
            job.machine.scale_out = *bandwidth / node;
        if (has(framework, "JeanZay")) job.machine.scale_out = 6.25e9;  // 4x100 Gb a node, says hardware.csv
        job.stack = stack_of(framework, words, precision);
        job.precision = has(precision, "fp8") || has(precision, "FP8") ? Precision::fp8 : Precision::bf16;
        job.devices = gpus;
        job.sequence = sequence;
        job.batch = batch;

        const auto recompute = csv.text(i, "recompute");
        if (recompute.starts_with("full")) {
            layout.recompute = Recompute::full;
        } else if (recompute.starts_with("selective-op")) {
            layout.recompute = Recompute::operations;
        } else if (recompute.starts_with("selective") && layout.zero == 3 && mfu > 0 && hfu > mfu) {
            // Some layers are computed again: a third of the operations of a step each, which hfu counts and
            // mfu does not.
            layout.recompute = Recompute::full;
            layout.recompute_layers =
                std::clamp(static_cast<int>(std::lround(3 * (hfu / mfu - 1) * job.model.layers())), 1,
                           job.model.layers());
        } else if (recompute.starts_with("selective")) {
            layout.recompute = Recompute::selective;
        } else if (recompute == "norm,act") {
            layout.recompute = Recompute::elementwise;
        }
        // Stages that are not even: the ends one layer short, for embedding and head, or else the last one
        // shortest.
        const auto all = job.model.layers(), pp = layout.pp;
        if (pp > 1 && all % pp != 0) {
            const auto each = (all + pp - 1) / pp;
            if (pp > 2 && (all + 2) % pp == 0 && (all + 2) / pp >= layout.vpp)
                layout.first_layers = layout.last_layers = (all + 2) / pp - 1;
            else if (all - each * (pp - 1) >= 1)
                layout.last_layers = all - each * (pp - 1);
        }
        if (has(words, "gradients sent in bf16")) layout.gradient_bytes = 2;
        layout.bf16_moments = has(words, "bf16 moments");
        layout.fp8_activations = has(words, "fp8 activations");
        layout.overlap_experts = has(words, "overlap of all-to-all");
        if (has(words, "DualPipe")) layout.schedule = Schedule::dual_pipe;
        if (has(words, "experts also sharded by tp")) layout.etp = layout.tp;
        row.smallest = layout;
        if (recompute.empty() || recompute == "?" || has(words, "k not stated"))
            row.smallest.recompute = Recompute::full;
        row.offloaded = std::clamp(number_after(words, "offload alpha=").value_or(0), 0.0, 1.0);
        const auto read_by = csv.text(i, "mem_kind");
        row.allocated = has(read_by, "alloc") || has(read_by, "max_mem");
        table.rows.push_back(std::move(row));
    }
    return table;
}

}  // namespace rankmesh::plan::score
