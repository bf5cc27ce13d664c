// SPDX-License-Identifier: Apache-2.0
// The texts of layouts of an inference engine, and all layouts on some devices.
#include <algorithm>
#include <array>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/plan/memory.hpp>
#include <rankmesh/plan/serve.hpp>

#include "plan/bounds.hpp"
#include "plan/names.hpp"

namespace rankmesh::plan {

using detail::cat;
using detail::in_quotes;

namespace of_serve_search {

struct Size {
    std::string_view name;
    int ServeLayout::*value;
};
constexpr auto sizes = std::array<Size, 5>{{{"pp", &ServeLayout::pp},
                                            {"dp", &ServeLayout::dp},
                                            {"tp", &ServeLayout::tp},
                                            {"ep", &ServeLayout::ep},
                                            {"dcp", &ServeLayout::dcp}}};
constexpr auto example = "'dp=8 tp=2 ep=16 cache=fp8'";

/// Sets what a word says. Returns its name.
std::string_view read_word(std::string_view word, ServeLayout& layout) {
    const auto [name, value] = name_and_value(word);
    if (name == "cache") {
        if (value != "fp8" && value != "bf16")
            throw UsageError(cat("the layout's cache is ", in_quotes(value), "; it must be bf16 or fp8"));
        layout.fp8_cache = value == "fp8";
        return name;
    }
    const auto size = std::ranges::find(sizes, name, &Size::name);
    if (size == sizes.end()) {
        auto names = std::vector<std::string_view>{"cache"};
        for (const auto& one : sizes) names.push_back(one.name);
        throw UsageError(cat(in_quotes(word), " is not part of a serving layout such as ", example,
                             "; parts are ", detail::listed({names.begin(), names.end()}),
                             did_you_mean(name, names)));
    }
    const auto number = detail::number_in(value);
    if (!number || *number < 1)
        throw UsageError(
            cat("the layout's ", name, " is ", in_quotes(value), "; it must be a whole number of 1 or more"));
    layout.*(size->value) = *number;
    return name;
}

}  // namespace of_serve_search

std::string to_string(const ServeLayout& layout) {
    auto text = std::string{};
    const auto add = [&](const auto&... parts) { text += cat(text.empty() ? "" : " ", parts...); };
    for (const auto& [name, value] : of_serve_search::sizes)
        if (layout.*value > 1) add(name, "=", layout.*value);
    if (text.empty()) add("dp=1");
    if (layout.fp8_cache) add("cache=fp8");
    return text;
}

ServeLayout read_serve_layout(std::string_view text, int devices) {
    auto layout = ServeLayout{};
    const auto seen = read_words(text, of_serve_search::example,
                                 [&](std::string_view word) { of_serve_search::read_word(word, layout); });
    const auto others = std::int64_t{layout.pp} * layout.tp;
    if (devices > 0 && std::ranges::find(seen, "dp") == seen.end()) {
        if (devices % others != 0)
            throw UsageError(
                cat("pp * tp of the layout is ", others, ", which does not divide ", devices, " devices"));
        layout.dp = static_cast<int>(devices / others);
    }
    if (others > (1 << 24) || others * layout.dp > (1 << 24))
        throw UsageError(cat("the layout ", in_quotes(text), " has more than ", 1 << 24, " ranks"));
    return layout;
}

FoundServing serve_search(const Job& job, const std::vector<std::string>& fix,
                          const std::vector<std::string>& most) {
    using namespace of_serve_search;
    check(job);
    // Fixed sizes and limits are layouts; 0 is open.
    auto fixed = ServeLayout{0, 0, 0, 0, 0}, limits = fixed;
    for (const auto& text : fix) read_word(text, fixed);
    for (const auto& text : most)
        if (read_word(text, limits) == "cache")
            throw UsageError(cat(in_quotes(text), " is no limit; only sizes have one, such as tp=8"));
    auto found = FoundServing{};
    auto reason = std::string{};
    const auto consider = [&](const ServeLayout& layout) {
        for (const auto& [name, value] : sizes)
            if ((fixed.*value > 0 && layout.*value != fixed.*value) ||
                (limits.*value > 0 && layout.*value > limits.*value))
                return;
        try {
            auto served = serve(job, layout);
            const auto& most_room = found.roomiest.memory;
            const auto is_better = served.memory.tokens == most_room.tokens
                                       ? served.memory.estimate < most_room.estimate
                                       : served.memory.tokens > most_room.tokens;
            if (++found.layouts == 1 || is_better) found.roomiest = served;
            if (served.memory.estimate <= serve_capacity(job.machine.device))
                found.best.push_back(std::move(served));
        } catch (const UsageError& error) {
            if (reason.empty()) reason = error.what();
        }
    };
    for (const auto pp : divisors(job.devices))
        for (const auto tp : divisors(job.devices / pp))
            for (const auto dcp : divisors(tp)) {
                const auto dp = job.devices / pp / tp;
                auto layout = ServeLayout{tp, pp, dp, 1, dcp, fixed.fp8_cache};
                consider(layout);
                layout.ep = tp * dp;
                if (layout.ep > 1) consider(layout);
            }
    if (found.layouts == 0 && reason.empty())
        throw UsageError(cat("no layout of ", detail::counted(job.devices, "device"),
                             " has the fixed sizes within the limits; pp * tp * dp must be ", job.devices));
    if (found.layouts == 0)
        throw UsageError(cat("vLLM can run no layout of ", detail::counted(job.devices, "device"),
                             " within these limits, such as: ", reason));
    const auto capacity = serve_capacity(job.machine.device);
    std::ranges::stable_sort(found.best, {}, [&](const Served& one) {
        return std::pair(fit(one.memory.estimate, capacity), one.decode.high);
    });
    return found;
}

}  // namespace rankmesh::plan
