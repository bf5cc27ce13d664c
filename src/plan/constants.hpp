// SPDX-License-Identifier: Apache-2.0
// The constants of the step-time model. docs/plan-model.md gives the source of each.
#pragma once

namespace rankmesh::plan {

/// "fitted": fitted together on published measurements of grade A, without the held-back rows; no constant
/// belongs to a single row. "stated": set without a fit.
struct Constants {
    // Matrix products take operations / (matrix * sustained * best measured rate) * (1 + edge * (1/M + 1/N +
    // 1/K)) seconds, but at least bytes / bandwidth.
    double matrix = 0.975;  // fraction of the best measured rate; stated
    double edge = 230;      // fitted
    double fp8 = 0.79;      // fraction of the data sheet's ratio to bfloat16; median of rows of grade B
    // Attention in one kernel takes operations / (efficiency * s / (s + half) * rate) seconds.
    double early_flash[2] = {0.369, 0.225};  // efficiency before Hopper, and from Hopper on; fitted
    double flash[2] = {0.613, 0.482};        // fitted
    double newest[2] = {0.696, 0.696};       // fitted
    double half = 1058;                      // tokens; fitted
    double flash_backward = 2.5;  // backward / forward: 5 products instead of 2 (Dao, arXiv 2307.08691)
    double batched = 0.583;       // fraction of the rate for products with scores in memory; fitted
    double unaligned = 0.12;      // the same if the head size is not a multiple of 8; fitted
    double score_bytes = 39.5;    // bytes per score, forward and backward; fitted
    // Memory-bound operations between matrix products.
    double memory = 0.8;           // fraction of the memory bandwidth; stated
    double elementwise = 0.597;    // fraction of the counted bytes; fitted
    double norms = 7.80;           // reads and writes of the hidden state per layer; fitted
    double dispatch = 7.46;        // the same per token at an expert; fitted
    double loss_bytes = 17.0;      // bytes per logit, forward and backward; fitted
    double embedding = 10;         // bytes per element of the hidden state; stated
    double launch = 0.440e-3;      // seconds per layer and pass; fitted
    double expert_backward = 1.5;  // backward / forward of the stack's `expert_launch`; stated
    // Communication.
    double scale_up = 0.552;        // of the bandwidth; fitted
    double scale_out = 0.924;       // of the bandwidth; fitted
    double all_to_all = 25e-6;      // seconds per all-to-all; stated
    double send = 25e-6;            // seconds per message between stages; stated
    double head_passes = 1.5;       // of the hidden state around the tp ring at the head; stated
    double overlap = 0.347;         // cost of overlap / the shorter of compute and communication; fitted
    double expert_overlap = 0.179;  // the same for all-to-all of experts: 20 of 132 multiprocessors send
                                    // (DeepSeek-V3, arXiv 2412.19437, 3.2.2); stated
    double host[2] = {25e9, 50e9};  // bytes per second to the host before Hopper, and from Hopper on: PCIe 4
                                    // and 5 with 16 lanes; stated
    double stragglers = 0.00484;    // fraction of the step per doubling of the nodes; fitted
    double optimizer_bytes = 32;    // bytes per parameter; stated
    // 1, or 0 to remove a term from the model.
    double recompute = 1, tp = 1, cp = 1, ep = 1, dp = 1, pp = 1, bubble = 1, head = 1, optimizer = 1,
           expert_tp = 1, schedule = 1, channels = 1;
    // The relative errors that 9 of 10 rows stay below, if their source is left out of the fit.
    double interval = 0.10;          // dense models in bfloat16
    double interval_experts = 0.17;  // models with experts
    double interval_fp8 = 0.17;
    // Beyond the measured jobs. Stated, since nothing was measured there.
    double measured_devices = 2304;  // the largest measured job
    // More for each of: more devices, other devices, other schedules, tp across nodes. Stragglers cost
    // production jobs 10.4 % of their time (Lin et al., arXiv 2505.05713).
    double interval_unmeasured = 0.1;
};

}  // namespace rankmesh::plan
