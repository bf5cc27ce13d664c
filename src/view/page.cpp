// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/page.hpp>

#include <ranges>

#include <rankmesh/core/detail/json_string.hpp>

#include "view/check_fits.hpp"
#include "view/markup.hpp"

namespace rankmesh::view {

namespace {

using detail::append;
using detail::cat;
using detail::json_string;

std::string list_of(const auto& values, const auto& text_of) {
    auto out = std::string("[");
    for (const auto& value : values) append(out, cat(out.size() > 1 ? "," : "", text_of(value)));
    return out + "]";
}

std::string axes_of(const Mesh& mesh) {
    return list_of(std::views::iota(0, mesh.axis_count()), [&](int a) {
        const auto digits = mesh.layout(AxisId{a});
        const auto all = list_of(std::views::iota(0, digits.digit_count()), [&](int k) {
            return cat("[", digits.digit(k).size, ",", digits.digit(k).stride, "]");
        });
        return cat("{\"name\":", json_string(mesh.name(AxisId{a})), ",\"digits\":", all, "}");
    });
}

std::string table_of(const Placement& placement) {
    if (placement.table().empty()) return "null";
    return list_of(placement.table(), [](int rank) { return std::to_string(rank); });
}

std::string cluster_of(const std::optional<Cluster>& cluster) {
    if (!cluster) return "null";
    const auto units = [](const Cluster::Unit& unit) {
        return cat("[", json_string(unit.name), ",", unit.count, "]");
    };
    const auto levels = list_of(cluster->levels(), [&](const Cluster::Level& level) {
        return cat("{\"name\":", json_string(level.name), ",\"count\":", level.count,
                   level.units.empty() ? std::string() : cat(",\"units\":", list_of(level.units, units)),
                   "}");
    });
    return cat("{\"text\":", json_string(to_string(*cluster)), ",\"levels\":", levels, "}");
}

/// Returns the default axis to colour by: one whose indices can be distinguished on the whole page.
AxisId telling_axis(const Mesh& mesh) {
    constexpr auto few = 1024;
    auto found = AxisId{0};
    for (int a = 0; a < mesh.axis_count(); ++a) {
        if (mesh.size(AxisId{a}) == 1) continue;
        found = AxisId{a};
        if (mesh.size() > few) break;
    }
    return found;
}

/// Returns the page's heading: the mesh as text, without the list of a placement.
std::string heading_of(const Placement& placement) {
    return placement.table().size() <= 64 ? to_string(placement) : cat(to_string(placement.mesh()), " @[…]");
}

}  // namespace

std::string draw_page(const Placement& placement, const Subject& subject) {
    const auto& mesh = placement.mesh();
    if (subject.cluster) check_fits(placement, *subject.cluster);
    for (const auto& [size, what] : {std::pair(mesh.size(), "ranks"),
                                     std::pair(subject.cluster ? subject.cluster->size() : 0, "devices")})
        if (size > max_page_size)
            throw UsageError(cat("a page shows at most ", max_page_size, " ", what, ", not ", size,
                                 "; the text and the SVG document fold what is large"));
    if (subject.focus) static_cast<void>(placement.coord(*subject.focus));
    const auto color_by = subject.color_by.value_or(telling_axis(mesh));
    static_cast<void>(mesh.name(color_by));

    const auto heading = heading_of(placement);
    const auto color = [](std::string_view text) { return json_string(text); };
    const auto data =
        cat("{\"mesh\":", json_string(heading), ",\"axes\":", axes_of(mesh), ",\"offset\":", mesh.offset(),
            ",\"ranks\":", table_of(placement), ",\"highest\":", placement.extent() - 1,
            ",\"cluster\":", cluster_of(subject.cluster),
            ",\"focus\":", subject.focus ? std::to_string(*subject.focus) : std::string("null"),
            ",\"color\":", color_by.index, ",\"palette\":", list_of(palette, color),
            ",\"ramp\":", list_of(ramp, color), "}");

    auto page = std::string{};
    auto rest = page_html;
    for (const auto& [place, content] : {std::pair<std::string_view, std::string_view>("@title@", {}),
                                         {"@style@", page_style},
                                         {"@data@", data},
                                         {"@script@", page_script}}) {
        const auto at = rest.find(place);
        page += rest.substr(0, at);
        append(page, place == "@title@" ? escaped(heading) : std::string(content));
        rest.remove_prefix(at + place.size());
    }
    return page.append(rest);
}

std::string join_pages(std::string_view title, const std::vector<std::string>& pages) {
    if (pages.size() == 1) return pages[0];
    auto all = cat("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>", escaped(title),
                   "</title>\n<style>body{margin:0}iframe{width:100%;height:90vh;border:0}</style>\n");
    for (const auto& page : pages) {
        append(all,
               cat("<iframe title=\"mesh ", &page - pages.data() + 1, " of ", pages.size(), "\" srcdoc=\""));
        for (auto c : escaped(page)) all += c == '"' ? "&quot;" : std::string(1, c);
        all += "\"></iframe>\n";
    }
    return all + "</html>\n";
}

}  // namespace rankmesh::view
