// SPDX-License-Identifier: Apache-2.0
// The constants of the model of steps; docs/plan-model.md says where each comes from.
#pragma once

namespace rankmesh::plan {

/// Fitted ones were fitted together, on the rows of grade A of published measurements whose name's hash is
/// not kept back; none belongs to one row.
struct Constants {
    // Matrix products: seconds are operations / (matrix * sustained * best measured rate) * (1 + edge * (1/M
    // + 1/N + 1/K)), at least their bytes over the bandwidth.
    double matrix = 0.975;  // of the best measured rate, stated
    double edge = 226;      // fitted
    double fp8 = 0.79;      // of the data sheet's ratio to bfloat16, set by rows of grade B
    // Attention: operations / (efficiency * s / (s + half) * rate), the backward pass 2.5 times that.
    double early_flash[2] = {0.384, 0.219};  // before Hopper, and from it on; fitted
    double flash[2] = {0.669, 0.493};        // fitted
    double newest[2] = {0.671, 0.671};       // fitted
    double half = 1040;                      // tokens; fitted
    double batched = 0.65;                   // of the rate, products of scores; fitted
    double unaligned = 0.141;                // the same, of heads whose size is not a multiple of 8; fitted
    double score_bytes = 40.9;               // of each score, forward and backward; fitted
    // What is between matrix products.
    double memory = 0.8;         // of the bandwidth of memory, stated
    double elementwise = 0.635;  // of the counted bytes; fitted
    double norms = 8.13;         // reads and writes of a hidden state in a layer; fitted
    double dispatch = 7.77;      // the same, of a token at an expert; fitted
    double loss_bytes = 17.8;    // of each logit, forward and backward; fitted
    double embedding = 10;       // reads and writes of a hidden state, stated
    double launch = 0.532e-3;    // seconds of a layer and pass; fitted
    // Communication.
    double scale_up = 0.562;      // of the bandwidth; fitted
    double scale_out = 0.969;     // of the bandwidth; fitted
    double all_to_all = 25e-6;    // seconds, stated
    double overlap = 0.412;       // of the shorter of compute and what runs beside it, what it costs; fitted
    double stragglers = 0.00531;  // of the step, for each doubling of the nodes; fitted
    double optimizer_bytes = 32;  // of each parameter, stated
    // 1, or 0 to leave a term out of the model.
    double recompute = 1, tp = 1, cp = 1, ep = 1, dp = 1, pp = 1, bubble = 1, head = 1, optimizer = 1;
    // The error that nine of ten rows that were kept back stay below.
    double interval = 0.10;
};

}  // namespace rankmesh::plan
