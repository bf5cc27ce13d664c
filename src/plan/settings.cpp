// SPDX-License-Identifier: Apache-2.0
#include "plan/settings.hpp"

namespace rankmesh::plan {

namespace of_settings_table {

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
                             did_you_mean(name, names), "; settings are ",
                             detail::listed({names.begin(), names.end()})));
    return read_word(text, layout);
}

}  // namespace of_settings_table

const Settings<Layout>& settings_of(const Layout&) {
    using L = Layout;
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
                {"recompute",
                 "recompute",
                 &L::recompute,
                 nullptr,
                 {{"none", 0}, {"selective", 1}, {"elementwise", 3}, {"operations", 4}, {"full", 2}},
                 0,
                 4,
                 &L::recompute_layers},
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
    return of_settings_table::text_of(layout, false, usual, {"mbs", "zero", "recompute"});
}

std::string to_string(const Layout& layout) {
    return cat(of_settings_table::text_of(layout, true, {}, {"dp"}), " ", settings_text(layout));
}

std::string to_string(const ServeLayout& layout) {
    using of_settings_table::text_of;
    const auto axes = text_of(layout, true, {}, {}), others = text_of(layout, false, {}, {});
    return cat(axes.empty() ? "dp=1" : axes, others.empty() ? "" : " ", others);
}

Layout read_layout(std::string_view text, int devices) {
    auto layout = Layout{};
    const auto seen = of_settings_table::read(text, devices, layout);
    if (std::ranges::find(seen, "sp") == seen.end()) layout.sequence_parallel = layout.tp > 1;
    return layout;
}

ServeLayout read_serve_layout(std::string_view text, int devices) {
    auto layout = ServeLayout{};
    of_settings_table::read(text, devices, layout);
    return layout;
}

void fix(Options& options, std::string_view text) {
    auto one = Layout{};
    const auto& setting = of_settings_table::read_option(text, false, one);
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
    const auto& setting = of_settings_table::read_option(text, true, one);
    (options.*setting.range).most = setting.value(one);
}

}  // namespace rankmesh::plan
