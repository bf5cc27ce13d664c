// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/layout.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "plan/bounds.hpp"
#include "plan/settings.hpp"

namespace rankmesh::plan {

int stage_layers(const Layout& layout, int layers, int stage) {
    if (layout.pp == 1) return layers;
    if (stage == 0 && layout.first_layers > 0) return layout.first_layers;
    if (stage == layout.pp - 1 && layout.last_layers > 0) return layout.last_layers;
    const auto before = layout.first_layers > 0 ? 1 : 0;
    const auto others = layout.pp - before - (layout.last_layers > 0 ? 1 : 0);
    const auto left = std::max(0, layers - layout.first_layers - layout.last_layers);
    return others < 1 ? 0 : left / others + (stage - before < left % others ? 1 : 0);
}

int chunk_layers(const Layout& layout, int layers) {
    return (most_layers(layout, layers) + layout.vpp - 1) / layout.vpp;
}

namespace of_layout {

/// Returns whether all chunks are full, except the first of the first stage and the last of the last stage.
bool has_full_chunks(const Layout& layout, int layers) {
    const auto chunk = chunk_layers(layout, layers);
    const auto full = std::int64_t{chunk} * layout.vpp;
    const auto first = full - stage_layers(layout, layers, 0);
    const auto last = full - stage_layers(layout, layers, layout.pp - 1);
    return first <= chunk && last <= chunk && full * layout.pp - first - last == layers;
}

/// Returns `; first=7 last=7 is legal` for layers that chunks of one size nearly fit; else "".
std::string legal_ends(const Layout& layout, int layers) {
    const auto chunks = std::int64_t{layout.pp} * layout.vpp;
    const auto missing = chunks - layers % chunks;
    const auto chunk = (layers + missing) / chunks;
    if (layers % chunks == 0) return "; even stages are legal";
    if (missing > 2 * chunk) return "";
    const auto full = chunk * layout.vpp;
    return cat("; first=", full - missing / 2, " last=", full - (missing - missing / 2), " is legal");
}

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    throw UsageError(cat("the layout ", parts...));
}

void check_experts(const Layout& layout, const Model& model) {
    const auto ranks = std::int64_t{layout.tp} * layout.cp * layout.dp;
    if (layout.ep > 1) {
        const auto experts = model.experts();
        if (experts == 0) refuse("has ep=", layout.ep, ", but the model has no experts");
        if (experts % layout.ep != 0)
            refuse("has ep=", layout.ep, ", which does not divide the ", experts, " experts of the model");
        if (ranks % layout.ep != 0)
            refuse("has ep=", layout.ep, ", which does not divide its tp*cp*dp=", ranks);
    }
    if (layout.overlap_experts && layout.ep == 1) refuse("has overlap=ep, but ep=1 sends nothing to hide");
    if (layout.dispatch_once && layout.ep == 1) refuse("has dispatch=once, but ep=1 sends nothing");
    check_settings(layout, model);
    if (ranks % (std::int64_t{layout.ep} * layout.etp) != 0)
        refuse("has ep*etp=", std::int64_t{layout.ep} * layout.etp,
               ", which does not divide its tp*cp*dp=", ranks);
}

void check_schedule(const Layout& layout, std::int64_t micro_batches) {
    if (layout.schedule == Schedule::one_f_one_b) return;
    const auto name = cat("schedule=", to_string(layout.schedule));
    if (layout.pp == 1) refuse("has ", name, " on one stage; it takes pp=2 or more");
    if (layout.vpp > 1) refuse("has ", name, " with vpp=", layout.vpp, "; it takes vpp=1");
    if (layout.schedule != Schedule::dual_pipe) return;
    if (layout.pp % 2 != 0) refuse("has ", name, " with pp=", layout.pp, "; it takes an even pp");
    if (micro_batches % 2 != 0 || micro_batches < 2 * std::int64_t{layout.pp})
        refuse("has ", name,
               ", which takes an even number of micro-batches, at least 2*pp=", 2 * std::int64_t{layout.pp},
               "; there are ", micro_batches);
}

}  // namespace of_layout

void check_settings(const Layout& layout, const Model& model) {
    using of_layout::refuse;
    if (layout.gradient_bytes != 0 && layout.gradient_bytes != 2 && layout.gradient_bytes != 4)
        refuse("has gradients of ", layout.gradient_bytes, " bytes; it takes 2, 4, or 0 for the framework's");
    check_numbers(layout);
    const auto of_experts = layout.etp > 1           ? cat("etp=", layout.etp)
                            : layout.overlap_experts ? std::string("overlap=ep")
                            : layout.dispatch_once   ? std::string("dispatch=once")
                                                     : std::string{};
    if (model.experts() == 0 && !of_experts.empty())
        refuse("has ", of_experts, ", but the model has no experts");
    for (const auto& kind : model.kinds)
        if (layout.etp > 1 && kind.expert_ffn % layout.etp != 0)
            refuse("has etp=", layout.etp, ", which does not divide the ", kind.expert_ffn,
                   " columns of an expert");
}

void check_tp(const Model& model, int tp) {
    using of_layout::refuse;
    for (const auto& kind : model.kinds) {
        if (kind.heads % tp != 0)
            refuse("has tp=", tp, ", which does not divide the ", kind.heads, " heads of the model");
        if (kind.kv_rank == 0 && kind.kv_heads > 0 && kind.kv_heads % tp != 0 && tp % kind.kv_heads != 0)
            refuse("has tp=", tp, ", which neither divides the ", kind.kv_heads,
                   " kv heads of the model nor is a multiple of that number");
    }
}

Mesh mesh(const Layout& layout) {
    auto axes = std::vector<Axis>{};
    const auto& settings = settings_of(layout);
    for (std::size_t i = 0; i < settings.axes; ++i)
        if (const auto size = settings.all[i].value(layout); size > 1)
            axes.push_back({settings.all[i].word, size});
    if (axes.empty()) axes.push_back({"dp", 1});
    return Mesh(axes);
}

void check(const Layout& layout, const Model& model, std::int64_t batch, std::int64_t sequence) {
    using namespace of_layout;
    check_numbers(layout);
    if (ranks_of(layout) > std::numeric_limits<int>::max())
        refuse("takes more than ", std::numeric_limits<int>::max(), " devices");
    const auto replicas = std::int64_t{layout.dp} * layout.cp;
    if (layout.zero_group > 0 && replicas % layout.zero_group != 0)
        refuse("shards inside ", layout.zero_group, " ranks, which do not divide its dp*cp=", replicas);
    check_tp(model, layout.tp);
    const auto layers = model.layers();
    const auto parts =
        std::int64_t{layout.cp} * (layout.cp > 1 ? 2 : 1) * (layout.sequence_parallel ? layout.tp : 1);
    if (sequence % parts != 0)
        refuse("has cp=", layout.cp,
               layout.sequence_parallel ? " and sequence parallelism over tp=" : " and tp=", layout.tp,
               ", which cuts a sequence into ", parts, " parts; ", sequence,
               " tokens are not a multiple of it");
    const auto share = std::int64_t{layout.dp} * layout.micro_batch;
    if (batch < 1 || batch % share != 0)
        refuse("takes ", share, " sequences at a time (dp=", layout.dp, " times a micro-batch of ",
               layout.micro_batch, "), which do not divide a batch of ", batch);
    check_experts(layout, model);
    check_schedule(layout, batch / share);
    if (layout.pp == 1 && (layout.first_layers > 0 || layout.last_layers > 0))
        refuse("has layers of a first or last stage, but only one stage");
    if (layout.vpp > 1) {
        if (layout.pp == 1) refuse("has vpp=", layout.vpp, " on one stage; it takes pp=2 or more");
        if (!has_full_chunks(layout, layers))
            refuse(
                "has pp*vpp=", std::int64_t{layout.pp} * layout.vpp, " chunks for ", layers,
                " layers; only the first chunk of the first stage and the last chunk of the last stage may "
                "have fewer layers than the others",
                legal_ends(layout, layers));
        if (batch / share % layout.pp != 0)
            refuse("has vpp=", layout.vpp, ", which takes a multiple of pp=", layout.pp,
                   " micro-batches; there are ", batch / share);
    }
    auto sum = std::int64_t{layout.first_layers} + layout.last_layers;
    if (layout.pp > layers) refuse("has pp=", layout.pp, " stages for ", counted(layers, "layer"));
    const auto others = layout.pp - (layout.first_layers > 0 ? 1 : 0) - (layout.last_layers > 0 ? 1 : 0);
    if (layout.pp > 1 && (others == 0 ? sum != layers : layers - sum < others))
        refuse("has ", sum, " layers on its first and last stages, which leaves ", layers - sum,
               " for the other ", others);
    if (layout.recompute_layers > 0 && layout.recompute != Recompute::full)
        refuse("computes ", layout.recompute_layers, " layers again, but only recompute=full:N does that");
}

}  // namespace rankmesh::plan
