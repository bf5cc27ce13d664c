// SPDX-License-Identifier: Apache-2.0
#include "explain/words.hpp"

#include <cmath>
#include <cstdio>
#include <utility>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/ranks.hpp>

namespace rankmesh::detail::explaining {

namespace {

constexpr std::size_t most_with_coordinates = 4;
constexpr std::size_t most_characters = 60;
constexpr std::size_t most_links = 8;

}  // namespace

std::optional<Coordinate> Places::coord(int rank) const {
    return where_ && where_->contains(rank) ? std::optional(where_->coord(rank)) : std::nullopt;
}

std::string Places::axes_of(const std::vector<int>& ranks) const {
    if (!where_ || ranks.empty()) return {};
    if (!std::ranges::all_of(ranks, [&](int rank) { return coord(rank).has_value(); })) return {};
    const auto& mesh = where_->mesh();
    auto axes = AxisSet{};
    add_axes(ranks, axes);
    // Distinct ranks that differ only along these axes are the whole group if their number is its size.
    auto size = std::size_t{1};
    auto text = std::string{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (axes.contains(AxisId{a})) {
            size *= static_cast<std::size_t>(mesh.size(AxisId{a}));
            text += (text.empty() ? "" : ",") + std::string(mesh.name(AxisId{a}));
        }
    return size == ranks.size() ? text : std::string{};
}

void Places::add_axes(const std::vector<int>& ranks, AxisSet& axes) const {
    const auto first = ranks.empty() ? std::nullopt : coord(ranks.front());
    for (const auto rank : ranks)
        if (const auto place = coord(rank); first && place)
            for (int a = 0; a < place->size(); ++a)
                if ((*place)[AxisId{a}] != (*first)[AxisId{a}]) axes.insert(AxisId{a});
}

std::vector<int> Places::group_of(int rank, AxisSet axes) const {
    if (!coord(rank)) return {};
    const auto& mesh = where_->mesh();
    auto wide = std::vector<AxisId>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (mesh.size(AxisId{a}) > 1) wide.push_back(AxisId{a});
    if (axes.empty() && wide.size() == 1) axes.insert(wide.front());
    if (axes.empty()) return {};
    return where_->group(rank, axes).list();
}

int Places::world() const { return where_ ? where_->extent() : 0; }

std::string Places::text() const { return where_ ? to_string(*where_) : std::string{}; }

std::string Places::rank(int rank) const {
    const auto place = coord(rank);
    return cat("rank ", rank, place ? cat(" (", to_string(*place), ")") : "");
}

std::string Places::ranks(const std::vector<int>& ranks) const {
    return ranks.size() == 1 ? rank(ranks.front()) : cat("ranks ", named(ranks));
}

std::string Places::named(const std::vector<int>& ranks) const {
    if (!where_) return few(ranks);
    if (ranks.size() <= most_with_coordinates) {
        auto text = std::string("{");
        for (const auto rank : ranks) {
            const auto place = coord(rank);
            text += cat(text.size() > 1 ? ", " : "", rank, place ? cat(" (", to_string(*place), ")") : "");
        }
        return text + "}";
    }
    const auto first = coord(ranks.front());
    if (!first) return few(ranks);
    const auto& mesh = where_->mesh();
    auto common = std::string{};
    for (int a = 0; a < first->size(); ++a) {
        const auto axis = AxisId{a};
        const auto same = mesh.size(axis) > 1 && std::ranges::all_of(ranks, [&](int rank) {
                              const auto other = coord(rank);
                              return other && (*other)[axis] == (*first)[axis];
                          });
        if (same) common += cat(common.empty() ? "" : " ", first->name(a), "=", (*first)[axis]);
    }
    return few(ranks) + (common.empty() ? "" : cat(", all at ", common));
}

std::string few(std::vector<int> ranks) {
    std::ranges::sort(ranks);
    auto text = ranks_to_string(ranks);
    if (text.size() <= most_characters) return text;
    // Keep as many whole terms as fit, and count the ranks in the others.
    const auto end = text.rfind(',', most_characters);
    if (end == std::string::npos) return text;
    auto head = text.substr(0, end) + "}";
    // A progression must not be cut, because `0, 8, ...` implies what follows.
    if (const auto dots = head.rfind("...}"); dots != std::string::npos)
        head = head.substr(0, dots - 2) + "}";
    const auto shown = parse_ranks(head).size();
    return cat(head, " and ", ranks.size() - shown, " more");
}

std::string ranks_that(std::size_t count, std::string_view one, std::string_view many) {
    return cat(count, count == 1 ? " rank " : " ranks ", count == 1 ? one : many);
}

std::string time_text(double seconds) {
    seconds = std::round(seconds * 1e9) / 1e9 + 0.0;  // differences of equal times are about 0, also -0
    const auto [unit, size] = seconds < 0.9995e-3 ? std::pair("us", 1e-6)
                              : seconds < 0.9995  ? std::pair("ms", 1e-3)
                                                  : std::pair("s", 1.0);
    char text[32];
    std::snprintf(text, sizeof text, seconds < 999.5 ? "%.3g %s" : "%.0f %s", seconds / size, unit);
    return text;
}

std::string text_of(const Deadlock& deadlock, const Places& places) {
    auto text = std::string{};
    for (std::size_t i = 0; i < deadlock.chain.size(); ++i) {
        if (i == most_links && deadlock.chain.size() > most_links + 1) {
            text += cat(", and so on over ", deadlock.chain.size() - most_links, " more");
            break;
        }
        const auto& link = deadlock.chain[i];
        text += i == 0 ? places.rank(link.rank) : ", which";
        text += cat(" waits in ", link.operation, link.is_message ? ", message " : ", call ", link.number,
                    " on ", link.communicator, " ", few(link.group),
                    link.is_group_inferred ? " (inferred)" : "", ", for ", places.rank(link.waits_for));
    }
    return text + (deadlock.is_cycle ? "" : ", whose list ends without it");
}

std::string error_text(std::string_view error, std::size_t most) {
    auto text = std::string{};
    for (auto c : error) {
        if (c == '\n') c = ' ';
        if (c != ' ' || !text.ends_with(' ')) text += c;
    }
    if (text.size() <= most) return escaped(text);
    // The end says what missing ranks do.
    const auto head = text.rfind(' ', most * 2 / 3);
    const auto tail = text.find(' ', text.size() - most / 3);
    if (head == std::string::npos || tail == std::string::npos) return excerpt(text, most);
    return escaped(cat(std::string_view(text).substr(0, head), " …", std::string_view(text).substr(tail)));
}

std::pair<std::string, std::int64_t> order_of(const FlightRecord& record) {
    const auto& at = record.error_at;  // `job.log:45, 20:27:21`
    const auto comma = std::min(at.rfind(", "), at.size());
    const auto line = at.substr(0, comma).substr(at.substr(0, comma).rfind(':') + 1);
    return {at.substr(comma), number_in<std::int64_t>(line).value_or(0)};
}

std::string said_text(const FlightRecord& record) {
    return cat(error_text(record.error, 400), record.error_at.empty() ? "" : cat(" (", record.error_at, ")"));
}

}  // namespace rankmesh::detail::explaining
