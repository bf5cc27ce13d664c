// SPDX-License-Identifier: Apache-2.0
#include "view/text_grid.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rankmesh::view {

Ink ink_of(const Scene& scene, int axis) {
    constexpr auto colors = std::array{36, 33, 35, 32, 34, 31, 96, 93, 95, 92, 94, 91};
    auto inner = std::size_t{0};
    for (auto a = static_cast<std::size_t>(axis) + 1; a < scene.axes.size(); ++a)
        inner += scene.axes[a].size > 1 ? 1U : 0U;
    return {.color = colors[inner % colors.size()], .bold = true};
}

void flow(std::vector<Line>& lines, const std::vector<Word>& words, int indent, int width) {
    auto line = Line{}.to(indent);
    auto empty = true;
    for (const auto& [text, ink] : words) {
        if (!empty && line.width() + 1 + length(text) > width) {
            lines.push_back(std::exchange(line, Line{}.to(indent + 2)));
            empty = true;
        }
        if (!empty) line.put(U' ');
        const auto room = width - line.width();
        if (length(text) <= room)
            line.put(text, ink);
        else
            line.put(text.substr(0, static_cast<std::size_t>(room - 1)), ink).put(U'…', ink);
        empty = false;
    }
    lines.push_back(line);
}

namespace {

constexpr auto longest_label = std::size_t{12};
constexpr auto focus_ink = Ink{.bold = true, .reverse = true};

std::u32string name_of(const Scene& scene, int axis) {
    auto name = wide(scene.axes[static_cast<std::size_t>(axis)].name);
    if (name.size() > longest_label) name = name.substr(0, longest_label - 1) + U'…';
    return name;
}

std::vector<Word> words_of(const Scene& scene, const std::vector<Fold>& folds) {
    auto words = std::vector<Word>{{U"⋮", dim}};
    for (std::size_t i = 0; i < folds.size(); ++i) {
        const auto name = name_of(scene, folds[i].axis);
        const auto ink = ink_of(scene, folds[i].axis);
        const auto range = folds[i].count() == 1 ? number(folds[i].first)
                                                 : number(folds[i].first) + U".." + number(folds[i].last);
        if (i > 0) words.push_back({U"and", dim});
        words.push_back({number(folds[i].count()), dim});
        words.push_back({U"more of", dim});
        words.push_back({name, ink});
        words.push_back({U"(" + name + U"=" + range + U")", dim});
    }
    words.push_back({U"folded", dim});
    return words;
}

/// Lays out the grid of a scene as lines.
class Grid {
public:
    Grid(const Scene& scene, int width) : scene_(scene), width_(width) {
        choose_gutter();
        choose_borders();
    }

    /// Returns the column after the grid.
    int end() const { return begin_[scene_.columns.size()] + (border_.back() ? 1 : 0); }

    std::vector<Line> paint() const {
        auto lines = std::vector<Line>{};
        paint_header(lines);
        for (std::size_t r = 0; r < scene_.rows.size();) {
            if (!scene_.rows[r].folded_before.empty()) paint_folds(lines, scene_.rows[r].folded_before);
            if (r == 0 || heading_of(r) != heading_of(r - 1)) paint_heading(lines, r);
            auto end = r + 1;
            while (end < scene_.rows.size() && scene_.rows[end].folded_before.empty() &&
                   heading_of(end) == heading_of(r))
                ++end;
            paint_band(lines, r, end);
            r = end;
        }
        if (!scene_.folded_after.empty()) paint_folds(lines, scene_.folded_after);
        if (!scene_.folded_columns.empty()) {
            auto words = words_of(scene_, scene_.folded_columns);
            words.front().text = U"…";
            flow(lines, words, 1, width_);
        }
        return lines;
    }

private:
    static constexpr int nobody = -1;

    std::size_t column_count() const { return scene_.columns.size(); }
    int box(std::size_t row, std::size_t column) const {
        const auto& cell = scene_.rows[row].cells[column];
        return cell.rank < 0 ? nobody : cell.box;
    }
    /// Returns true if there is a line left of `column` in `row`; `column` may be one past the last.
    bool divided(std::size_t row, std::size_t column) const {
        const auto left = column == 0 ? nobody : box(row, column - 1);
        const auto right = column == column_count() ? nobody : box(row, column);
        return left != right;
    }
    std::vector<int> heading_of(std::size_t row) const {
        const auto& indices = scene_.rows[row].indices;
        return {indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(headed_)};
    }

    /// Labels the innermost row axes left of the rows while that takes less than 2/5 of the width, and the
    /// others in a line above.
    void choose_gutter() {
        const auto count = scene_.row_axes.size();
        label_width_.resize(count);
        headed_ = count;
        gutter_ = 1;
        auto open = true;
        for (auto i = count; i-- > 0;) {
            for (const auto& row : scene_.rows)
                label_width_[i] = std::max(label_width_[i], length(number(row.indices[i])));
            label_width_[i] += length(name_of(scene_, scene_.row_axes[i])) + 1;
            open = open && gutter_ + label_width_[i] + 1 <= width_ * 2 / 5;
            if (!open) continue;
            gutter_ += label_width_[i] + 1;
            headed_ = i;
        }
        if (scene_.wrapped) return;
        for (auto axis : scene_.column_axes) gutter_ = std::max(gutter_, length(name_of(scene_, axis)) + 2);
    }

    void choose_borders() {
        border_.assign(column_count() + 1, false);
        auto cell_width = 1;
        for (const auto& column : scene_.columns)
            for (auto index : column.indices)
                cell_width = std::max(cell_width, length(number(index)) + (scene_.wrapped ? 1 : 0));
        for (std::size_t r = 0; r < scene_.rows.size(); ++r) {
            for (const auto& cell : scene_.rows[r].cells)
                if (cell.rank >= 0) cell_width = std::max(cell_width, length(number(cell.rank)));
            for (std::size_t c = 0; c <= column_count(); ++c) border_[c] = border_[c] || divided(r, c);
        }
        const auto gap = cell_width < 3 ? 2 : 1;
        auto x = gutter_;
        for (std::size_t c = 0; c < column_count(); ++c) {
            begin_.push_back(x);
            if (border_[c]) ++x;
            x += gap + (scene_.columns[c].folded ? 1 : cell_width) + (border_[c + 1] ? gap : 0);
            edge_.push_back(x - (border_[c + 1] ? gap : 0));
        }
        begin_.push_back(x);
    }

    static void put_right(Line& line, int edge, std::u32string_view text, Ink ink) {
        line.to(edge - length(text)).put(text, ink);
    }

    void paint_header(std::vector<Line>& lines) const {
        for (std::size_t k = 0; k < scene_.column_axes.size(); ++k) {
            const auto ink = ink_of(scene_, scene_.column_axes[k]);
            auto line = Line{};
            const auto wrapped = scene_.wrapped && k == 0;
            if (!wrapped) {
                const auto label = name_of(scene_, scene_.column_axes[k]) + U"=";
                line.to(gutter_ - length(label)).put(label, ink);
            }
            const std::vector<int>* before = nullptr;
            for (std::size_t c = 0; c < column_count(); ++c) {
                const auto& column = scene_.columns[c];
                if (column.folded) {
                    put_right(line, edge_[c], U"…", dim);
                    before = nullptr;
                    continue;
                }
                const auto upto = static_cast<std::ptrdiff_t>(k + 1);
                if (!before ||
                    !std::equal(column.indices.begin(), column.indices.begin() + upto, before->begin()))
                    put_right(line, edge_[c], (wrapped ? U"+" : U"") + number(column.indices[k]), ink);
                before = &column.indices;
            }
            lines.push_back(line);
        }
    }

    void paint_folds(std::vector<Line>& lines, const std::vector<Fold>& folds) const {
        auto indent = 1;
        for (auto i = headed_; i < scene_.row_axes.size() && scene_.row_axes[i] != folds.back().axis; ++i)
            indent += label_width_[i] + 1;
        const auto words = words_of(scene_, folds);
        auto needed = indent;
        for (const auto& word : words) needed += length(word.text) + 1;
        flow(lines, words, needed <= width_ ? indent : 1, width_);
    }

    void paint_heading(std::vector<Line>& lines, std::size_t row) const {
        if (headed_ == 0) return;
        auto words = std::vector<Word>{};
        for (std::size_t i = 0; i < headed_; ++i)
            words.push_back({name_of(scene_, scene_.row_axes[i]) + U"=" + number(scene_.rows[row].indices[i]),
                             ink_of(scene_, scene_.row_axes[i])});
        flow(lines, words, 1, width_);
    }

    /// Paints consecutive rows. Boxes that continue elsewhere are closed at their edges.
    void paint_band(std::vector<Line>& lines, std::size_t first, std::size_t end) const {
        for (auto r = first; r < end; ++r) {
            paint_border(lines, r, first, end);
            auto line = Line{};
            paint_labels(line, r, first);
            for (std::size_t c = 0; c < column_count(); ++c) {
                if (divided(r, c)) line.to(begin_[c]).put(U'│', dim);
                const auto& cell = scene_.rows[r].cells[c];
                if (scene_.columns[c].folded) put_right(line, edge_[c], U"…", dim);
                if (cell.rank < 0) continue;
                put_right(line, edge_[c], number(cell.rank), ink_of_cell(cell));
                if (!scene_.selects || cell.rank != scene_.focus) continue;
                // A mark without colour, on the blanks beside the number.
                line.over(edge_[c] - length(number(cell.rank)) - 1, U"[", bold);
                line.put(U']', bold);
            }
            if (divided(r, column_count())) line.to(begin_.back()).put(U'│', dim);
            lines.push_back(line);
        }
        paint_border(lines, end, first, end);
    }

    Ink ink_of_cell(const Cell& cell) const {
        if (cell.rank == scene_.focus) return focus_ink;
        return cell.peer >= 0 ? ink_of(scene_, cell.peer) : Ink{};
    }

    void paint_labels(Line& line, std::size_t row, std::size_t first) const {
        auto x = 1;
        auto changed = row == first;
        for (auto i = headed_; i < scene_.row_axes.size(); ++i) {
            changed = changed || scene_.rows[row].indices[i] != scene_.rows[row - 1].indices[i];
            if (changed)
                line.to(x).put(
                    name_of(scene_, scene_.row_axes[i]) + U"=" + number(scene_.rows[row].indices[i]),
                    ink_of(scene_, scene_.row_axes[i]));
            x += label_width_[i] + 1;
        }
    }

    /// Paints the line above `row` in the band of rows `first` to `end`, if boxes end or begin there.
    void paint_border(std::vector<Line>& lines, std::size_t row, std::size_t first, std::size_t end) const {
        const auto above = [&](std::size_t c) { return row > first ? box(row - 1, c) : nobody; };
        const auto below = [&](std::size_t c) { return row < end ? box(row, c) : nobody; };
        const auto crossed = [&](std::size_t c) { return c < column_count() && above(c) != below(c); };
        auto any = false;
        for (std::size_t c = 0; c < column_count(); ++c) any = any || crossed(c);
        if (!any) return;

        // Index: the arms of a crossing; up 8, down 4, left 2, right 1.
        constexpr auto crossings = std::u32string_view(U"   ─ ┌┐┬ └┘┴│├┤┼");
        auto line = Line{};
        for (std::size_t c = 0; c <= column_count(); ++c) {
            line.to(begin_[c]);
            const auto arms = (row > first && divided(row - 1, c) ? 8U : 0U) |
                              (row < end && divided(row, c) ? 4U : 0U) | (c > 0 && crossed(c - 1) ? 2U : 0U) |
                              (crossed(c) ? 1U : 0U);
            if (border_[c]) line.put(crossings[arms], dim);
            if (c == column_count()) break;
            while (line.width() < begin_[c + 1]) line.put(crossed(c) ? U'─' : U' ', dim);
        }
        for (std::size_t c = 0; c < column_count(); ++c) {
            const auto starts =
                crossed(c) && below(c) != nobody && (c == 0 || !crossed(c - 1) || below(c) != below(c - 1));
            if (starts) paint_box_label(line, c, row, first, crossed);
        }
        lines.push_back(line);
    }

    /// Writes the label of a box on the border that begins at column `c`: the full label, its number, or
    /// nothing.
    template <class Crossed>
    void paint_box_label(Line& line, std::size_t c, std::size_t row, std::size_t first,
                         const Crossed& crossed) const {
        const auto found = scene_.labels.find(box(row, c));
        if (found == scene_.labels.end()) return;
        auto last = c;
        // A label covers the line between two crossings, never a crossing.
        const auto crossing = [&](std::size_t column) { return row > first && divided(row - 1, column); };
        while (last + 1 < column_count() && crossed(last + 1) && box(row, last + 1) == box(row, c) &&
               !crossing(last + 1))
            ++last;
        const auto room = begin_[last + 1] - begin_[c] - 1;
        const auto label = wide(found->second);
        const auto digits = label.substr(label.rfind(U' ') + 1);
        if (length(label) + 2 <= room)
            line.over(begin_[c] + 1, U" " + label + U" ", {});
        else if (length(digits) + 2 <= room)
            line.over(begin_[c] + 1, U" " + digits + U" ", {});
        else if (length(digits) <= room)
            line.over(begin_[c] + 1, digits, {});
    }

    const Scene& scene_;
    int width_;
    std::size_t headed_ = 0;        // outer row axes, named in a line above the rows
    std::vector<int> label_width_;  // width of labels by row axis
    int gutter_ = 1;                // where the first column of the grid begins
    std::vector<bool> border_;      // by column, and one past the last: some row is divided there
    std::vector<int> begin_;        // the border left of a column, or its first blank
    std::vector<int> edge_;         // one past its last digit
};

}  // namespace

std::vector<Line> paint_grid(const Scene& scene, int width) { return Grid(scene, width).paint(); }
int end_of_grid(const Scene& scene, int width) { return Grid(scene, width).end(); }

}  // namespace rankmesh::view
