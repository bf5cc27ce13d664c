// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/layout.hpp>

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
    if (ranks % layout.ep != 0) refuse("has ep=", layout.ep, ", which does not divide its tp*cp*dp=", ranks);
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

/// Returns the axes, or the other settings, that differ from `usual` or are in `always`.
template <class Of>
std::string text_of(const Of& layout, bool axes, const Of& usual,
                    std::initializer_list<std::string_view> always) {
    auto text = std::string{};
    const auto& settings = settings_of(layout);
    for (std::size_t i = axes ? 0 : settings.axes; i < (axes ? settings.axes : settings.all.size()); ++i) {
        const auto& one = settings.all[i];
        const auto value = one.value(layout);
        if (one.word.empty() ||
            (value == one.value(usual) && std::ranges::find(always, one.word) == always.end()))
            continue;
        text += cat(text.empty() ? "" : " ", one.word, "=");
        text += one.words.empty() ? std::to_string(value) : one.word_of(value);
        if (one.layers != nullptr && layout.*(one.layers) > 0) text += cat(":", layout.*(one.layers));
    }
    return text;
}

/// Reads the words of a layout in any order. Computes a missing dp from `devices`, unless that is 0. Returns
/// the names of the words.
template <class Of>
std::vector<std::string_view> read(std::string_view text, int devices, Of& layout) {
    const auto& settings = settings_of(layout);
    auto seen = std::vector<std::string_view>{};
    for_each_word(text, [&](std::string_view word) {
        const auto name = name_and_value(word).first;
        if (std::ranges::find(seen, name) != seen.end())
            throw UsageError(cat("the layout gives ", name, " twice; give it once"));
        read_word(word, layout);
        seen.push_back(name);
    });
    if (seen.empty()) throw UsageError(cat("the layout is empty; write one such as ", settings.example));
    if (devices > 0 && std::ranges::find(seen, "dp") == seen.end()) {
        const auto others = ranks_of(layout, "dp");
        auto names = std::string{};
        for (std::size_t i = 0; i < settings.axes; ++i)
            if (settings.all[i].word != "dp") names += cat(names.empty() ? "" : " * ", settings.all[i].word);
        if (devices % others != 0)
            throw UsageError(
                cat(names, " of the layout is ", others, ", which does not divide ", devices, " devices"));
        layout.dp = static_cast<int>(devices / others);
    }
    if (ranks_of(layout) > settings.most_ranks)
        throw UsageError(
            cat("the layout ", in_quotes(text), " has more than ", settings.most_ranks, " ranks"));
    return seen;
}

/// Reads `tp=8` as an option of a search. `ranges`: only settings that have a range.
const Setting<Layout>& read_option(std::string_view text, bool ranges, Layout& layout) {
    auto names = std::vector<std::string_view>{};
    for (const auto& one : settings_of(layout).all)
        if (one.range != nullptr || (!ranges && !one.word.empty() && one.word != "group" &&
                                     one.word != "first" && one.word != "last"))
            names.push_back(one.word);
    const auto name = name_and_value(text).first;
    if (std::ranges::find(names, name) == names.end())
        throw UsageError(cat(in_quotes(text), " is not a setting with its value, such as tp=8",
                             did_you_mean(name, names), "; settings are ", listed(names)));
    return read_word(text, layout);
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

void check_axes(const Model& model, int tp, int pp, int ep) {
    using of_layout::refuse;
    for (const auto& kind : model.kinds) {
        if (kind.heads % tp != 0)
            refuse("has tp=", tp, ", which does not divide the ", kind.heads, " heads of the model");
        if (kind.kv_rank == 0 && kind.kv_heads > 0 && kind.kv_heads % tp != 0 && tp % kind.kv_heads != 0)
            refuse("has tp=", tp, ", which neither divides the ", kind.kv_heads,
                   " kv heads of the model nor is a multiple of that number");
    }
    if (pp > model.layers()) refuse("has pp=", pp, " stages for ", counted(model.layers(), "layer"));
    const auto experts = model.experts();
    if (ep > 1 && experts == 0) refuse("has ep=", ep, ", but the model has no experts");
    if (ep > 1 && experts % ep != 0)
        refuse("has ep=", ep, ", which does not divide the ", experts, " experts of the model");
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
    check_axes(model, layout.tp, layout.pp, layout.ep);
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
    const auto others = layout.pp - (layout.first_layers > 0 ? 1 : 0) - (layout.last_layers > 0 ? 1 : 0);
    if (layout.pp > 1 && (others == 0 ? sum != layers : layers - sum < others))
        refuse("has ", sum, " layers on its first and last stages, which leaves ", layers - sum,
               " for the other ", others);
    if (layout.recompute_layers > 0 && layout.recompute != Recompute::full)
        refuse("computes ", layout.recompute_layers, " layers again, but only recompute=full:N does that");
}

const Settings<Layout>& settings_of(const Layout&) {
    using L = Layout;
    const auto recomputed = std::vector<ValueWord>{
        {"none", 0}, {"selective", 1}, {"elementwise", 3}, {"operations", 4}, {"full", 2}};
    static const auto all = Settings<L>{
        .kind = "layout",
        .example = "'pp=4 dp=8 tp=8 mbs=1 zero=1'",
        .most_ranks = std::numeric_limits<int>::max(),
        .axes = 4,
        .all = {{"pp", "pp", &L::pp, &Options::pp},
                {"dp", "dp", &L::dp, &Options::dp},
                {"cp", "cp", &L::cp, &Options::cp},
                {"tp", "tp", &L::tp, &Options::tp},
                {"ep", "ep", &L::ep, &Options::ep},
                {"vpp", "vpp", &L::vpp, &Options::vpp},
                {"mbs", "micro_batch", &L::micro_batch, &Options::micro_batch},
                {"zero", "zero", &L::zero, &Options::zero, {}, 0, 3},
                {"group", "zero_group", &L::zero_group, nullptr, {}, 0},
                {"recompute", "recompute", &L::recompute, nullptr, recomputed, 0, 4, &L::recompute_layers},
                {"", "recompute_layers", &L::recompute_layers, nullptr, {}, 0},
                {"first", "first_layers", &L::first_layers, nullptr, {}, 0},
                {"last", "last_layers", &L::last_layers, nullptr, {}, 0},
                {"sp", "sequence_parallel", &L::sequence_parallel, nullptr, {{"0", 0}, {"1", 1}}},
                {"etp", "etp", &L::etp},
                {"schedule", "schedule", &L::schedule, nullptr, {{"1f1b", 0}, {"zb", 1}, {"dualpipe", 2}}},
                {"overlap", "overlap_experts", &L::overlap_experts, nullptr, {{"ep", 1}}},
                {"dispatch", "dispatch_once", &L::dispatch_once, nullptr, {{"once", 1}}},
                {"grads", "gradient_bytes", &L::gradient_bytes, nullptr, {{"bf16", 2}, {"fp32", 4}}},
                {"moments", "bf16_moments", &L::bf16_moments, nullptr, {{"bf16", 1}, {"fp32", 0}}},
                {"acts", "fp8_activations", &L::fp8_activations, nullptr, {{"fp8", 1}, {"bf16", 0}}},
                {"offload", "offload", &L::offload, nullptr, {}, 0, 100}}};
    return all;
}

const Settings<ServeLayout>& settings_of(const ServeLayout&) {
    using L = ServeLayout;
    static const auto all =
        Settings<L>{.kind = "serving layout",
                    .example = "'dp=8 tp=2 ep=16 cache=fp8'",
                    .most_ranks = 1 << 24,
                    .axes = 3,
                    .all = {{"pp", "pp", &L::pp},
                            {"dp", "dp", &L::dp},
                            {"tp", "tp", &L::tp},
                            {"ep", "ep", &L::ep},
                            {"dcp", "dcp", &L::dcp},
                            {"cache", "fp8_cache", &L::fp8_cache, nullptr, {{"bf16", 0}, {"fp8", 1}}}}};
    return all;
}

std::string_view to_string(Recompute recompute) {
    return settings_of(Layout{})["recompute"].word_of(static_cast<int>(recompute));
}

std::string_view to_string(Schedule schedule) {
    return settings_of(Layout{})["schedule"].word_of(static_cast<int>(schedule));
}

std::string settings_text(const Layout& layout) {
    const auto usual = Layout{.sequence_parallel = layout.tp > 1};
    return of_layout::text_of(layout, false, usual, {"mbs", "zero", "recompute"});
}

std::string to_string(const Layout& layout) {
    return cat(of_layout::text_of(layout, true, {}, {"dp"}), " ", settings_text(layout));
}

std::string to_string(const ServeLayout& layout) {
    using of_layout::text_of;
    const auto axes = text_of(layout, true, {}, {}), others = text_of(layout, false, {}, {});
    return cat(axes.empty() ? "dp=1" : axes, others.empty() ? "" : " ", others);
}

Layout read_layout(std::string_view text, int devices) {
    auto layout = Layout{};
    const auto seen = of_layout::read(text, devices, layout);
    if (std::ranges::find(seen, "sp") == seen.end()) layout.sequence_parallel = layout.tp > 1;
    return layout;
}

ServeLayout read_serve_layout(std::string_view text, int devices) {
    auto layout = ServeLayout{};
    of_layout::read(text, devices, layout);
    return layout;
}

void fix(Options& options, std::string_view text) {
    auto one = Layout{};
    const auto& setting = of_layout::read_option(text, false, one);
    if (one.recompute_layers > 0)
        throw UsageError(cat(in_quotes(text),
                             " cannot be fixed; the search finds the number of layers to compute again, "
                             "so fix recompute=full"));
    if (setting.range != nullptr)
        options.*setting.range = {setting.value(one), setting.value(one)};
    else if (setting.word == "recompute")
        options.recompute = {one.recompute};
    else if (setting.word == "sp")
        options.sequence_parallel = one.sequence_parallel;
    else
        setting.set(options.base, setting.value(one));
}

void limit(Options& options, std::string_view text) {
    auto one = Layout{};
    const auto& setting = of_layout::read_option(text, true, one);
    (options.*setting.range).most = setting.value(one);
}

}  // namespace rankmesh::plan
