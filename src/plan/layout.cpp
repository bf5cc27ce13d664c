// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/layout.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/core/error.hpp>

namespace rankmesh::plan {

using detail::cat;
using detail::counted;

int stage_layers(const Layout& layout, int layers, int stage) {
    if (layout.pp == 1) return layers;
    if (stage == 0 && layout.first_layers > 0) return layout.first_layers;
    if (stage == layout.pp - 1 && layout.last_layers > 0) return layout.last_layers;
    const auto before = layout.first_layers > 0 ? 1 : 0;
    const auto others = layout.pp - before - (layout.last_layers > 0 ? 1 : 0);
    const auto left = std::max(0, layers - layout.first_layers - layout.last_layers);
    return others < 1 ? 0 : left / others + (stage - before < left % others ? 1 : 0);
}

Mesh mesh(const Layout& layout) {
    auto axes = std::vector<Axis>{};
    for (const auto& [name, size] : {std::pair{"pp", layout.pp}, std::pair{"dp", layout.dp},
                                     std::pair{"cp", layout.cp}, std::pair{"tp", layout.tp}})
        if (size > 1) axes.push_back({name, size});
    if (axes.empty()) axes.push_back({"dp", 1});
    return Mesh(axes);
}

void check(const Layout& layout, const Model& model, std::int64_t batch, std::int64_t sequence) {
    const auto refuse = [](const auto&... parts) { throw UsageError(cat("the layout ", parts...)); };
    using Size = std::pair<const char*, int>;
    auto devices = std::int64_t{1};
    for (const auto& [name, size] :
         {Size{"tp", layout.tp}, Size{"cp", layout.cp}, Size{"ep", layout.ep}, Size{"pp", layout.pp},
          Size{"vpp", layout.vpp}, Size{"dp", layout.dp}, Size{"micro-batch", layout.micro_batch}}) {
        if (size < 1) refuse("has ", name, "=", size, "; it takes 1 or more");
        if (name == std::string_view("ep") || name == std::string_view("vpp") ||
            name == std::string_view("micro-batch"))
            continue;
        devices *= size;
        if (devices > std::numeric_limits<int>::max())
            refuse("takes more than ", std::numeric_limits<int>::max(), " devices");
    }
    if (layout.zero < 0 || layout.zero > 3) refuse("has zero=", layout.zero, "; it takes 0, 1, 2 or 3");
    const auto replicas = std::int64_t{layout.dp} * layout.cp;
    if (layout.zero_group < 0 || (layout.zero_group > 0 && replicas % layout.zero_group != 0))
        refuse("shards inside ", layout.zero_group, " ranks, which do not divide its dp*cp=", replicas);
    if (model.heads % layout.tp != 0)
        refuse("has tp=", layout.tp, ", which does not divide the ", model.heads, " heads of the model");
    if (model.kv_heads % layout.tp != 0 && layout.tp % model.kv_heads != 0)
        refuse("has tp=", layout.tp, ", which neither divides the ", model.kv_heads,
               " kv heads of the model nor is a multiple of that number");
    const auto parts =
        std::int64_t{layout.cp} * (layout.cp > 1 ? 2 : 1) * (layout.sequence_parallel ? layout.tp : 1);
    if (sequence % parts != 0)
        refuse("has cp=", layout.cp,
               layout.sequence_parallel ? " and sequence parallelism over tp=" : " and tp=", layout.tp,
               ", which cuts a sequence into ", parts, " parts; ", sequence,
               " tokens are not a multiple of it");
    if (layout.ep > 1) {
        if (model.experts == 0) refuse("has ep=", layout.ep, ", but the model has no experts");
        if (model.experts % layout.ep != 0)
            refuse("has ep=", layout.ep, ", which does not divide the ", model.experts,
                   " experts of the model");
        if (replicas * layout.tp % layout.ep != 0)
            refuse("has ep=", layout.ep, ", which does not divide its tp*cp*dp=", replicas * layout.tp);
    }
    const auto share = std::int64_t{layout.dp} * layout.micro_batch;
    if (batch < 1 || batch % share != 0)
        refuse("takes ", share, " sequences at a time (dp=", layout.dp, " times a micro-batch of ",
               layout.micro_batch, "), which do not divide a batch of ", batch);
    if (layout.first_layers < 0 || layout.last_layers < 0)
        refuse("has ", std::min(layout.first_layers, layout.last_layers),
               " layers on a stage; it takes 0, for even stages, or more");
    if (layout.pp == 1 && (layout.first_layers > 0 || layout.last_layers > 0))
        refuse("has layers of a first or last stage, but only one stage");
    const auto uneven = layout.first_layers > 0 || layout.last_layers > 0;
    if (layout.vpp > 1) {
        const auto chunks = std::int64_t{layout.pp} * layout.vpp;
        if (layout.pp == 1) refuse("has vpp=", layout.vpp, " on one stage; it takes pp=2 or more");
        if (uneven || model.layers % chunks != 0)
            refuse("has pp*vpp=", chunks, " chunks, which must have equally many layers, but ", model.layers,
                   " layers", uneven ? " on uneven stages" : "");
        if (batch / share % layout.pp != 0)
            refuse("has vpp=", layout.vpp, ", which takes a multiple of pp=", layout.pp,
                   " micro-batches; there are ", batch / share);
    }
    auto sum = std::int64_t{layout.first_layers} + layout.last_layers;
    if (layout.pp > model.layers)
        refuse("has pp=", layout.pp, " stages for ", counted(model.layers, "layer"));
    const auto others = layout.pp - (layout.first_layers > 0 ? 1 : 0) - (layout.last_layers > 0 ? 1 : 0);
    if (layout.pp > 1 && (others == 0 ? sum != model.layers : model.layers - sum < others))
        refuse("has ", sum, " layers on its first and last stages, which leaves ", model.layers - sum,
               " for the other ", others);
    if (layout.recompute_layers < 0)
        refuse("computes ", layout.recompute_layers, " layers again; it takes 0, for all, or more");
    if (layout.recompute_layers > 0 && layout.recompute != Recompute::full)
        refuse("computes ", layout.recompute_layers, " layers again, but only recompute=full:N does that");
}

}  // namespace rankmesh::plan
