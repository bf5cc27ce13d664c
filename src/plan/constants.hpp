// SPDX-License-Identifier: Apache-2.0
// The constants of the model of steps; docs/plan.md says where each comes from.
#pragma once

namespace rankmesh::plan {

/// Fitted ones were fitted together, on the rows of grade A of published measurements whose name's hash is
/// not kept back; none belongs to one row.
struct Constants {
    // Matrix products: seconds are operations / (matrix * sustained * best measured rate) * (1 + edge * (1/M
    // + 1/N + 1/K)), at least their bytes over the bandwidth.
    double matrix = 0.975;  // of the best measured rate, stated
    double edge = 213;      // fitted
    double fp8 = 0.81;      // of the data sheet's ratio to bfloat16, set by rows of grade B
    // Attention: operations / (efficiency * s / (s + half) * rate), the backward pass 2.5 times that.
    double early_flash[2] = {0.377, 0.223};  // before Hopper, and from it on; fitted
    double flash[2] = {0.673, 0.415};        // fitted
    double newest[2] = {0.765, 0.765};       // fitted
    double half = 1020;                      // tokens; fitted
    double batched = 0.694;                  // of the rate, products of scores; fitted
    double unaligned = 0.0581;               // the same, of heads whose size is no multiple of 8; fitted
    double score_bytes = 33.1;               // of each score, forward and backward; fitted
    // What is between matrix products.
    double memory = 0.8;        // of the bandwidth of memory, stated
    double elementwise = 0.75;  // of the counted bytes; fitted
    double eager = 2.5;         // the same, where nothing is fused; fitted
    double norms = 8.17;        // reads and writes of a hidden state in a layer; fitted
    double dispatch = 9.95;     // the same, of a token at an expert; fitted
    double loss_bytes = 16.5;   // of each logit, forward and backward; fitted
    double embedding = 10;      // reads and writes of a hidden state, stated
    double launch = 0.414e-3;   // seconds of a layer and pass; fitted
    // Communication.
    double scale_up = 0.499;       // of the bandwidth; fitted
    double scale_out = 0.947;      // of the bandwidth; fitted
    double all_to_all = 25e-6;     // seconds, stated
    double sharded_hop = 2.44e-6;  // seconds of each rank, layer and pass of sharded parameters; fitted
    double overlap = 0.381;        // of the shorter of compute and what runs beside it, what it costs; fitted
    double stragglers = 0.00452;   // of the step, for each doubling of the nodes; fitted
    double optimizer_bytes = 32;   // of each parameter, stated
    // 1, or 0 to leave a term out of the model.
    double recompute = 1, tp = 1, cp = 1, ep = 1, dp = 1, pp = 1, bubble = 1, head = 1, optimizer = 1;
    // Nine of ten measured steps are within this factor of the predicted one.
    double interval = 1.10;
};

}  // namespace rankmesh::plan
