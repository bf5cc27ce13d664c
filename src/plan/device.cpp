// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/device.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/csv.hpp"
#include "plan/data.hpp"

namespace rankmesh::plan {

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
    auto names = std::vector<std::string_view>{};
    for (const auto& one : all) names.push_back(one.name);
    throw UsageError(cat("unknown device ", in_quotes(name), did_you_mean(name, names), "; devices are ",
                         detail::listed({names.begin(), names.end()})));
}

}  // namespace rankmesh::plan
