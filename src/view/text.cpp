// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/text.hpp>

#include <algorithm>

#include "view/text_grid.hpp"

namespace rankmesh::view {

namespace {

/// Returns the group of the focus in at most `room` columns.
std::u32string group_of(const LegendEntry& entry, int room) {
    constexpr auto dots = std::string_view("…");  // the only characters that are not ASCII
    const auto text = brief(entry.terms, entry.size, static_cast<std::size_t>(room));
    const auto at = text.find(dots);
    if (at == std::string::npos) return wide(text);
    return wide(text.substr(0, at)) + U"…" + wide(text.substr(at + dots.size()));
}

void paint_title(std::vector<Line>& lines, const Scene& scene, int width) {
    auto words = std::vector<Word>{};
    auto rest = std::string_view(scene.mesh);
    for (std::size_t a = 0; !rest.empty(); ++a) {
        const auto end = std::min(rest.find(' '), rest.size());
        words.push_back(
            {wide(rest.substr(0, end)), a < scene.axes.size() ? ink_of(scene, static_cast<int>(a)) : bold});
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    words.push_back({U"·", dim});
    words.push_back({number(scene.size)});
    words.push_back({scene.size == 1 ? U"rank" : U"ranks"});
    if (scene.cluster) {
        words.push_back({U"on", dim});
        auto levels = to_string(*scene.cluster);
        for (std::size_t begin = 0; begin < levels.size();) {
            const auto end = std::min(levels.find(' ', begin), levels.size());
            words.push_back({wide(levels.substr(begin, end - begin)), bold});
            begin = end + 1;
        }
        const auto free = scene.cluster->size() - scene.size - scene.others;
        if (free > 0)
            words.push_back(
                {wide(detail::cat("(", free, free == 1 ? " device stays" : " devices stay", " free)")), dim});
    }
    flow(lines, words, 0, width);
}

void paint_legend(std::vector<Line>& lines, const Scene& scene, int width) {
    auto name_width = 4;
    auto size_width = 4;
    auto stride_width = 6;
    for (const auto& entry : scene.axes) {
        name_width = std::max(name_width, static_cast<int>(entry.name.size()));
        size_width = std::max(size_width, length(number(entry.size)));
        stride_width = std::max(stride_width, static_cast<int>(entry.stride.size()));
    }
    const auto size_end = 1 + name_width + 2 + size_width;
    const auto stride_end = size_end + 2 + stride_width;
    const auto group_begin = stride_end + 2;
    const auto heading = U"group of rank " + number(scene.focus);
    auto longest = length(heading);
    for (const auto& entry : scene.axes) longest = std::max(longest, length(group_of(entry, width - 5)));
    const auto narrow = group_begin + longest > width;

    auto head = Line{}.to(1).put(U"axis", dim);
    if (narrow) {
        head.put(U", stride, " + heading, dim);
    } else {
        head.to(size_end - 4).put(U"size", dim).to(stride_end - 6).put(U"stride", dim);
        head.to(group_begin).put(heading, dim);
    }
    lines.push_back(head);
    for (std::size_t a = 0; a < scene.axes.size(); ++a) {
        const auto& entry = scene.axes[a];
        const auto ink = entry.size > 1 ? ink_of(scene, static_cast<int>(a)) : Ink{};
        const auto stride = wide(entry.stride.empty() ? "-" : entry.stride);
        if (narrow) {
            flow(lines, {{wide(entry.name) + U"=" + number(entry.size), ink}, {stride}}, 1, width);
            lines.push_back(Line{}.to(5).put(group_of(entry, width - 5), ink));
            continue;
        }
        auto line = Line{}.to(1).put(wide(entry.name), ink);
        line.to(size_end - length(number(entry.size))).put(number(entry.size));
        line.to(stride_end - length(stride)).put(stride);
        lines.push_back(line.to(group_begin).put(group_of(entry, width - group_begin), ink));
    }
    if (scene.boxed.empty()) return;
    const auto& inside = scene.cluster->levels().back();
    flow(lines,
         {{U"each box is one", dim},
          {wide(scene.boxed), bold},
          {wide(detail::cat("(", inside.name, ":", inside.count, scene.cluster->is_even() ? "" : " at most",
                            ")")),
           dim}},
         1, width);
}

}  // namespace

std::string paint_text(const Scene& scene, const TextStyle& style) {
    const auto width = std::max(style.width, 40);
    auto lines = std::vector<Line>{};
    paint_title(lines, scene, width);
    lines.emplace_back();
    for (auto& line : paint_grid(scene, width)) lines.push_back(std::move(line));
    lines.emplace_back();
    paint_legend(lines, scene, width);
    auto out = std::string{};
    for (const auto& line : lines) out += line.text(style.color);
    return out;
}

Scene draw_for_text(const Placement& placement, const Subject& subject, const TextStyle& style) {
    for (auto limits = Limits{.columns = std::max(style.width / 2, 1)};;) {
        auto scene = draw(placement, subject, limits);
        const auto end = end_of_grid(scene, std::max(style.width, 40));
        if (end <= style.width || limits.columns == 1) return scene;
        // More columns than in proportion cannot fit, because the labels of the rows keep their width.
        const auto most = static_cast<int>(scene.columns.size()) * style.width / end;
        limits.columns = std::max(1, std::min(limits.columns - 1, most));
    }
}

}  // namespace rankmesh::view
