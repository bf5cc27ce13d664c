// SPDX-License-Identifier: Apache-2.0
// A training job: model, machines, framework and batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/device.hpp>
#include <rankmesh/plan/model.hpp>

namespace rankmesh::plan {

/// The machines in the time model: nodes of equal devices. Bandwidths are bytes per second and direction.
struct Machine {
    Device device = {};
    int node = 8;          ///< devices per node, connected by scale-up links
    double scale_up = 0;   ///< per device, inside its node
    double scale_out = 0;  ///< per device, between nodes
    friend bool operator==(const Machine&, const Machine&) = default;
};

/// Returns the machine of a cluster with one kind of device. The innermost level is the devices of a node.
/// Bandwidths that the cluster does not give come from the device. Throws UsageError if neither gives a
/// bandwidth.
RANKMESH_EXPORT Machine machine(const Cluster& cluster, const Device& device);

/// How attention is computed: as matrix products with the scores in memory (`unfused`), or in one kernel.
enum class Attention : std::uint8_t { unfused, early_flash, flash, newest };

/// Constants of a training framework that affect step time and memory. docs/plan-model.md has the formulas.
struct Stack {
    std::string name = {};
    Attention attention = Attention::newest;
    double scale = 1;                 ///< factor of the step time, fitted
    double tp_hidden = 0;             ///< fraction of tensor-parallel communication that compute hides
    bool overlaps = false;            ///< reduces gradients during the backward pass
    double gradient_bytes = 4;        ///< bytes per parameter, sent
    double gradient_memory = 4;       ///< bytes per parameter, in memory
    double logit_bytes = 6;           ///< bytes per logit, at the peak of the loss
    double elementwise = 1;           ///< bytes that element-wise operations move, relative to fused kernels
    double hop = 0;                   ///< seconds per step of a ring
    double shard_latency = 0;         ///< seconds per shard that ZeRO broadcasts, one after another
    bool tokens_once = false;         ///< all-to-all sends each token to a node only once
    double expert_launch = 0;         ///< minimum seconds of the host for a layer with experts
    double reserved = 1.1;            ///< bytes that the allocator holds / bytes in use
    std::int64_t overhead = 1 << 30;  ///< bytes outside the allocator
    std::string source = {};
    friend bool operator==(const Stack&, const Stack&) = default;
};

/// Returns the built-in stacks, from `src/plan/data/stacks.csv`. The first is the default.
RANKMESH_EXPORT std::span<const Stack> stacks();

/// Returns the stack with the longest name that is a prefix of `framework`, ignoring case; else the first
/// stack.
RANKMESH_EXPORT const Stack& stack(std::string_view framework);

/// Returns the bytes of a number, with the scales of its block.
RANKMESH_EXPORT double bytes(Precision precision);
RANKMESH_EXPORT std::string_view to_string(Precision precision);
/// Returns the type of that name; nullopt for any other text.
RANKMESH_EXPORT std::optional<Precision> precision_of(std::string_view name);

/// A training job: the model, the machines, the framework and the batch.
struct Job {
    Model model = {};
    Machine machine = {};
    Stack stack = {};
    Precision precision = Precision::bf16;  ///< of matrix products
    std::optional<Precision> weights = {};  ///< that an engine holds; nullopt: as the products
    bool only_experts = false;  ///< weights beside experts, or beside feed-forward networks, stay in bfloat16
    int devices = 1;
    std::int64_t sequence = 0;  ///< tokens
    std::int64_t batch = 0;     ///< sequences per step
};

/// Throws UsageError, which names the value, if a value of the job is impossible or missing.
RANKMESH_EXPORT void check(const Job& job);

}  // namespace rankmesh::plan
