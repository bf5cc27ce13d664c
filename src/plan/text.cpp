// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/text.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

#include "plan/names.hpp"

namespace rankmesh::plan {

using detail::cat;
using detail::in_quotes;

namespace of_text {

constexpr auto example = "'pp=4 dp=8 tp=8 mbs=1 zero=1'";

struct Word {
    std::string_view name;
    int Layout::*value;
    int least;
};

constexpr auto axes = std::array<Word, 4>{
    {{"pp", &Layout::pp, 1}, {"dp", &Layout::dp, 1}, {"cp", &Layout::cp, 1}, {"tp", &Layout::tp, 1}}};
constexpr auto settings = std::array<Word, 9>{{{"ep", &Layout::ep, 1},
                                               {"vpp", &Layout::vpp, 1},
                                               {"mbs", &Layout::micro_batch, 1},
                                               {"zero", &Layout::zero, 0},
                                               {"group", &Layout::zero_group, 0},
                                               {"first", &Layout::first_layers, 0},
                                               {"last", &Layout::last_layers, 0},
                                               {"etp", &Layout::etp, 1},
                                               {"offload", &Layout::offload, 0}}};
/// A setting with a few values. `apply` sets value number `at`.
struct Choice {
    std::string_view name;
    std::vector<std::string_view> values;
    void (*apply)(Layout& layout, std::size_t at);
};
const std::vector<Choice>& choices() {
    static const auto all = std::vector<Choice>{
        {"schedule",
         {schedule_names.begin(), schedule_names.end()},
         [](Layout& l, std::size_t at) { l.schedule = static_cast<Schedule>(at); }},
        {"overlap", {"ep"}, [](Layout& l, std::size_t) { l.overlap_experts = true; }},
        {"dispatch", {"once"}, [](Layout& l, std::size_t) { l.dispatch_once = true; }},
        {"grads", {"bf16", "fp32"}, [](Layout& l, std::size_t at) { l.gradient_bytes = at == 0 ? 2 : 4; }},
        {"moments", {"bf16", "fp32"}, [](Layout& l, std::size_t at) { l.bf16_moments = at == 0; }},
        {"acts", {"fp8", "bf16"}, [](Layout& l, std::size_t at) { l.fp8_activations = at == 0; }}};
    return all;
}
constexpr auto recomputes =
    std::array<std::string_view, 5>{"none", "selective", "full", "elementwise", "operations"};

std::optional<int> number_of(std::string_view text, int least) {
    const auto value = detail::number_in(text);
    return value && *value >= least ? value : std::nullopt;
}

int number(std::string_view name, std::string_view text, int least) {
    if (const auto value = number_of(text, least)) return *value;
    throw UsageError(cat("the layout's ", name, " is ", in_quotes(text), "; it must be a whole number of ",
                         least, " or more"));
}

void read_recompute(std::string_view text, Layout& layout) {
    const auto colon = text.find(':');
    const auto kind = std::ranges::find(recomputes, text.substr(0, colon));
    const auto layers =
        colon == std::string_view::npos ? std::optional(0) : number_of(text.substr(colon + 1), 1);
    if (kind == recomputes.end() || !layers || (*layers > 0 && *kind != "full"))
        throw UsageError(cat("the layout's recompute is ", in_quotes(text),
                             "; it must be none, selective, elementwise, operations, full, or full:N for N "
                             "layers of each stage"));
    layout.recompute = static_cast<Recompute>(kind - recomputes.begin());
    layout.recompute_layers = *layers;
}

}  // namespace of_text

std::string_view to_string(Recompute recompute) {
    return of_text::recomputes[static_cast<std::size_t>(recompute)];
}

std::string settings_text(const Layout& layout) {
    using namespace of_text;
    auto text = std::string{};
    const auto add = [&](const auto&... parts) { text += cat(text.empty() ? "" : " ", parts...); };
    if (layout.ep > 1) add("ep=", layout.ep);
    if (layout.vpp > 1) add("vpp=", layout.vpp);
    add("mbs=", layout.micro_batch);
    add("zero=", layout.zero);
    if (layout.zero_group > 0) add("group=", layout.zero_group);
    add("recompute=", to_string(layout.recompute));
    if (layout.recompute_layers > 0) text += cat(":", layout.recompute_layers);
    if (layout.first_layers > 0) add("first=", layout.first_layers);
    if (layout.last_layers > 0) add("last=", layout.last_layers);
    if (layout.sequence_parallel != (layout.tp > 1)) add("sp=", layout.sequence_parallel ? 1 : 0);
    if (layout.etp > 1) add("etp=", layout.etp);
    if (layout.schedule != Schedule::one_f_one_b) add("schedule=", name_of(layout.schedule));
    if (layout.overlap_experts) add("overlap=ep");
    if (layout.dispatch_once) add("dispatch=once");
    if (layout.gradient_bytes > 0) add("grads=", layout.gradient_bytes == 2 ? "bf16" : "fp32");
    if (layout.bf16_moments) add("moments=bf16");
    if (layout.fp8_activations) add("acts=fp8");
    if (layout.offload > 0) add("offload=", layout.offload);
    return text;
}

std::string to_string(const Layout& layout) {
    using namespace of_text;
    auto text = std::string{};
    for (const auto& axis : axes)
        if (layout.*(axis.value) > 1 || axis.name == "dp")
            text += cat(axis.name, "=", layout.*(axis.value), " ");
    return text + settings_text(layout);
}

Layout read_layout(std::string_view text, int devices) {
    using namespace of_text;
    auto layout = Layout{};
    auto shares_sequence = std::optional<bool>{};
    const auto seen = read_words(text, example, [&](std::string_view word) {
        const auto [name, value] = name_and_value(word);
        const auto axis = std::ranges::find(axes, name, &Word::name);
        const auto setting = std::ranges::find(settings, name, &Word::name);
        if (axis != axes.end()) {
            layout.*(axis->value) = number(name, value, axis->least);
        } else if (setting != settings.end()) {
            layout.*(setting->value) = number(name, value, setting->least);
        } else if (name == "recompute") {
            read_recompute(value, layout);
        } else if (name == "sp") {
            if (value != "0" && value != "1")
                throw UsageError(cat("the layout's sp is ", in_quotes(value), "; it must be 0 or 1"));
            shares_sequence = value == "1";
        } else if (const auto choice = std::ranges::find(choices(), name, &Choice::name);
                   choice != choices().end()) {
            const auto at = std::ranges::find(choice->values, value);
            if (at == choice->values.end())
                throw UsageError(cat("the layout's ", name, " is ", in_quotes(value), "; it must be ",
                                     choice->values.size() > 1 ? "one of " : "",
                                     detail::listed({choice->values.begin(), choice->values.end()})));
            choice->apply(layout, static_cast<std::size_t>(at - choice->values.begin()));
        } else {
            auto names = std::vector<std::string_view>{"recompute", "sp"};
            for (const auto& one : axes) names.push_back(one.name);
            for (const auto& one : settings) names.push_back(one.name);
            for (const auto& one : choices()) names.push_back(one.name);
            const auto words = std::vector<std::string>(names.begin(), names.end());
            throw UsageError(cat(in_quotes(word), " is not part of a layout such as ", example,
                                 "; parts are ", detail::listed(words), did_you_mean(name, names)));
        }
    });
    const auto others = std::int64_t{1} * layout.pp * layout.cp;
    const auto product = others > std::numeric_limits<int>::max() ? others : others * layout.tp;
    if (devices > 0 && std::ranges::find(seen, "dp") == seen.end()) {
        if (devices % product != 0)
            throw UsageError(cat("pp * cp * tp of the layout is ", product, ", which does not divide ",
                                 devices, " devices"));
        layout.dp = static_cast<int>(devices / product);
    }
    if (product > std::numeric_limits<int>::max() || product * layout.dp > std::numeric_limits<int>::max())
        throw UsageError(cat("the layout ", in_quotes(text), " has more than 2147483647 ranks"));
    layout.sequence_parallel = shares_sequence.value_or(layout.tp > 1);
    return layout;
}

}  // namespace rankmesh::plan
