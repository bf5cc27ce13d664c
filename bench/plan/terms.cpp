// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/terms.hpp"

namespace rankmesh::plan::score {

std::span<const Term> terms() {
    static constexpr Term all[] = {
        {"recompute", "what is computed again", [](Constants& c, Job&) { c.recompute = 0; }},
        {"edge", "small matrix products are slower", [](Constants& c, Job&) { c.edge = 0; }},
        {"sustained", "devices slow down under load",
         [](Constants&, Job& job) { job.machine.device.sustained = 1; }},
        {"length", "attention over short sequences is slower", [](Constants& c, Job&) { c.half = 0; }},
        {"scores", "bytes of scores that are kept", [](Constants& c, Job&) { c.score_bytes = 0; }},
        {"alignment", "heads of no multiple of 8", [](Constants& c, Job&) { c.unaligned = c.batched; }},
        {"elementwise", "what is between matrix products", [](Constants& c, Job&) { c.elementwise = 0; }},
        {"launch", "time of each layer and pass", [](Constants& c, Job&) { c.launch = 0; }},
        {"expert-launch", "least time of a layer with experts",
         [](Constants&, Job& job) { job.stack.expert_launch = 0; }},
        {"head", "embedding, last projection and loss", [](Constants& c, Job&) { c.head = 0; }},
        {"tp", "tensor-parallel communication", [](Constants& c, Job&) { c.tp = 0; }},
        {"cp", "context-parallel communication", [](Constants& c, Job&) { c.cp = 0; }},
        {"ep", "all-to-all of experts", [](Constants& c, Job&) { c.ep = 0; }},
        {"expert-tp", "experts that are sharded inside", [](Constants& c, Job&) { c.expert_tp = 0; }},
        {"expert-overlap", "all-to-all beside compute", [](Constants& c, Job&) { c.expert_overlap = 1; }},
        {"most-nodes", "routing to a few nodes only", [](Constants&, Job& job) { job.model.most_nodes = 0; }},
        {"schedule", "bubbles of other schedules than 1F1B", [](Constants& c, Job&) { c.schedule = 0; }},
        {"dp", "data-parallel communication", [](Constants& c, Job&) { c.dp = 0; }},
        {"overlap", "cost of what runs beside compute", [](Constants& c, Job&) { c.overlap = 0; }},
        {"channels", "rings over fewer network cards hold fewer", [](Constants& c, Job&) { c.channels = 0; }},
        {"pp", "sends between stages", [](Constants& c, Job&) { c.pp = 0; }},
        {"bubble", "filling and draining the pipeline", [](Constants& c, Job&) { c.bubble = 0; }},
        {"hops", "latency of each step of a ring", [](Constants&, Job& job) { job.stack.hop = 0; }},
        {"shards", "shards that are broadcast one by one",
         [](Constants&, Job& job) { job.stack.shard_latency = 0; }},
        {"stragglers", "more nodes wait for more", [](Constants& c, Job&) { c.stragglers = 0; }},
        {"optimizer", "the optimizer's own time", [](Constants& c, Job&) { c.optimizer = 0; }},
        {"scale", "factors of frameworks", [](Constants&, Job& job) { job.stack.scale = 1; }},
    };
    return all;
}

}  // namespace rankmesh::plan::score
