// SPDX-License-Identifier: Apache-2.0
// Jobs and layouts that laws are held against.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

inline const Model& known(std::string_view name) { return *std::ranges::find(models(), name, &Model::name); }

/// The last kind of layer of a model: the one with experts, if it has them.
inline Layer& layer_of(Model& model) { return model.kinds.back(); }
inline const Layer& layer_of(const Model& model) { return model.kinds.back(); }

/// Keeps the first layers of a model, or repeats the last.
inline void set_layers(Model& model, int layers) {
    const auto runs = std::exchange(model.runs, {});
    for (const auto& run : runs) {
        const auto taken = &run == &runs.back() ? layers : std::min(layers, run.count);
        if (taken > 0) model.runs.push_back({run.kind, taken});
        layers -= taken;
    }
}

inline Job job_of(std::string_view model, std::string_view device_name, std::string_view framework,
                  int devices, std::int64_t batch) {
    const auto& device = plan::device(device_name);
    return {.model = known(model),
            .machine = {device, device.scale_up_size, device.scale_up_bandwidth, device.scale_out_bandwidth},
            .stack = stack(framework),
            .devices = devices,
            .sequence = known(model).sequence,
            .batch = batch};
}

inline std::vector<Job> some_jobs() {
    return {job_of("llama3.1-8B", "H100", "torchtitan", 64, 128),
            job_of("gpt3-175B", "A100-SXM-80GB", "Megatron-LM", 64, 64),
            job_of("qwen3-235B-a22B", "H100", "Megatron-Core MoE", 64, 256),
            job_of("deepseek-v3", "GB200", "Megatron-Bridge", 64, 256),
            job_of("internlm-7B", "A100-SXM-80GB", "InternEvo", 64, 256)};
}

/// Every legal layout of a job over a few sizes of each axis.
inline std::vector<Layout> some_layouts(const Job& job) {
    auto found = std::vector<Layout>{};
    for (int tp : {1, 2, 8})
        for (int cp : {1, 2})
            for (int pp : {1, 2, 4})
                for (int ep : {1, 8})
                    for (int vpp : {1, 2})
                        for (int zero : {0, 1, 2, 3})
                            for (int micro_batch : {1, 2})
                                for (auto recompute : {Recompute::none, Recompute::selective, Recompute::full,
                                                       Recompute::elementwise, Recompute::operations}) {
                                    auto layout = Layout{.tp = tp,
                                                         .cp = cp,
                                                         .ep = ep,
                                                         .pp = pp,
                                                         .vpp = vpp,
                                                         .zero = zero,
                                                         .micro_batch = micro_batch};
                                    layout.dp = job.devices / (tp * cp * pp);
                                    layout.sequence_parallel = tp > 1;
                                    layout.recompute = recompute;
                                    try {
                                        check(layout, job.model, job.batch, job.sequence);
                                    } catch (const UsageError&) {
                                        continue;
                                    }
                                    found.push_back(layout);
                                }
    return found;
}

}  // namespace rankmesh::plan
