// SPDX-License-Identifier: Apache-2.0
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

/// The machines as the model of times sees them: nodes of equal devices, bandwidths in bytes a second and
/// direction.
struct Machine {
    Device device = {};
    int node = 8;          ///< devices that reach each other over the scale-up links
    double scale_up = 0;   ///< of each device inside its node
    double scale_out = 0;  ///< of each device between nodes
    friend bool operator==(const Machine&, const Machine&) = default;
};

/// The machine of a cluster whose devices are all of one kind: its innermost level is the node's devices, and
/// bandwidths that it does not say are the device's. Throws UsageError where neither says one.
RANKMESH_EXPORT Machine machine(const Cluster& cluster, const Device& device);

/// How attention runs: as matrix products with the scores in memory, or in one kernel.
enum class Attention : std::uint8_t { unfused, early_flash, flash, newest };

/// What differs between training frameworks and shows in step times and memory; docs/plan-model.md has the
/// formulas.
struct Stack {
    std::string name = {};
    Attention attention = Attention::newest;
    double scale = 1;                 ///< of the step time, fitted
    double tp_hidden = 0;             ///< share of tensor-parallel communication behind compute
    bool overlaps = false;            ///< gradients are reduced while the backward pass goes on
    double gradient_bytes = 4;        ///< of each parameter, on the wire
    double gradient_memory = 4;       ///< of each parameter, in memory
    double logit_bytes = 6;           ///< of each logit, at the peak of the loss
    double elementwise = 1;           ///< bytes of element-wise operations, of what fused kernels move
    double hop = 0;                   ///< seconds of each step of a ring
    double shard_latency = 0;         ///< seconds of each shard that ZeRO broadcasts one after another
    bool tokens_once = false;         ///< all-to-all sends a token to a node once
    double expert_launch = 0;         ///< seconds that the host takes at least for a layer with experts
    double reserved = 1.1;            ///< bytes that the allocator holds, of those in use
    std::int64_t overhead = 1 << 30;  ///< bytes beside the allocator
    std::string source = {};
    friend bool operator==(const Stack&, const Stack&) = default;
};

/// The frameworks that the library knows, from `src/plan/data/stacks.csv`; the first is for all others.
RANKMESH_EXPORT std::span<const Stack> stacks();

/// The stack whose name `framework` begins with, in any case, the longest of them, else the first.
RANKMESH_EXPORT const Stack& stack(std::string_view framework);

enum class Precision : std::uint8_t { bf16, fp8 };

/// What is trained, on what, with what.
struct Job {
    Model model = {};
    Machine machine = {};
    Stack stack = {};
    Precision precision = Precision::bf16;
    int devices = 1;
    std::int64_t sequence = 0;  ///< tokens
    std::int64_t batch = 0;     ///< sequences of a step
};

/// Throws UsageError that says what of the job is impossible or missing.
RANKMESH_EXPORT void check(const Job& job);

}  // namespace rankmesh::plan
