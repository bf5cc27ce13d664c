// SPDX-License-Identifier: Apache-2.0
// Megatron's text `order`, which lists axes innermost first: of `tp-dp-pp` tp is fastest.
#include <algorithm>

#include "frameworks/megatron/megatron.hpp"

namespace rankmesh::frameworks::of_megatron {

std::vector<std::string> tokens(std::string_view joined) {
    auto parts = std::vector<std::string>(1);
    for (const auto c : joined)
        if (c == '-')
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

std::string inject_gtp_remat_axis(std::string_view order, std::string_view after) {
    auto names = tokens(order);
    if (std::ranges::find(names, "gtp_remat") != names.end()) return std::string(order);
    auto anchor = std::ranges::find(names, after);
    if (anchor == names.end()) anchor = std::ranges::find(names, "tp");
    names.insert(anchor == names.end() ? names.begin() : anchor + 1, "gtp_remat");
    return joined(names, "-");
}

Ordered in_order(std::string_view order, const std::vector<int>& sizes, int rank_offset) {
    // In the order in which the original looks at them.
    constexpr std::string_view known[] = {"tp", "pp", "dp", "ep", "cp", "gtp_remat"};
    const auto lacks = [&](Fault fault, std::size_t i) {
        return Error(fault, cat("The size of (", known[i], ") is (", sizes[i],
                                "), but you haven'tspecified the order (", order, ")."));
    };
    auto made = Ordered{std::string(order), {}};
    for (auto& c : made.text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        // The text is searched, not its tokens: "gtp_remat" hides that tp is not there.
        if (made.text.find(known[i]) != std::string::npos) continue;
        if (sizes[i] != 1) throw lacks(Fault::missing, i);
        made.text += cat("-", known[i]);
    }
    auto listed = std::vector<int>(sizes.size());  // how often
    for (const auto& name : tokens(made.text)) {
        const auto i = static_cast<std::size_t>(std::ranges::find(known, name) - std::begin(known));
        refuse_if(i == sizes.size(), Fault::unknown, "the order (", order, ") names '", name,
                  "'; the axes are tp, pp, dp, ep, cp and gtp_remat");
        // An axis of size 1 that is listed again adds nothing.
        if (++listed[i] == 1) made.axes.emplace(made.axes.begin(), name, sizes[i]);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] < 1)
            throw Refusal(Fault::sizes, "sizes-below-one", "a size of ", sizes[i], " was given for ",
                          known[i], "; every size is 1 or more");
        if (sizes[i] > 1 && listed[i] > 1)
            throw Refusal(Fault::argument, "axis-twice", "the order (", order, ") lists ", known[i],
                          " twice; list it once");
    }
    if (rank_offset < 0)
        throw Refusal(Fault::out_of_range, "offset-below-zero", "a rank offset of ", rank_offset,
                      " was given; it is 0 or more");
    if (sizes[0] > 1 && listed[0] == 0) throw lacks(Fault::sizes, 0);
    return made;
}

}  // namespace rankmesh::frameworks::of_megatron
