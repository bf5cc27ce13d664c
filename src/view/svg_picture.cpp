// SPDX-License-Identifier: Apache-2.0
#include "view/svg_picture.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <rankmesh/core/detail/quote.hpp>

#include "view/markup.hpp"

namespace rankmesh::view {
namespace {

using detail::append;
using detail::cat;

// In units of the document, which are pixels at the normal size.
constexpr auto cell_height = 24;
constexpr auto gap = 4;         // between cells of one box
constexpr auto box_gap = 14;    // between columns of different boxes
constexpr auto label_gap = 32;  // above a row where boxes begin, for their labels
constexpr auto fold_height = 26;
constexpr auto margin = 16;
constexpr auto line_height = 20;
constexpr auto glyph = 8;  // the width of a character of the font, rounded up

constexpr auto axis_colors = std::size_t{6};   // for axes, from the innermost axis outwards
constexpr auto marked_color = std::size_t{1};  // of the palette
constexpr auto most_swatches = 16;
constexpr auto swatch_gap = 4;
constexpr auto band_inset = 3;  // inset of the band of colours in the focus

int width_of(std::string_view text) { return static_cast<int>(text.size()) * glyph; }

class Painter {
public:
    explicit Painter(const Scene& scene) : scene_(scene) {
        auto label = 0;
        for (const auto& row : scene.rows) label = std::max(label, width_of(label_of(row)));
        auto digits = std::size_t{2};
        for (const auto& row : scene.rows)
            for (const auto& cell : row.cells) digits = std::max(digits, std::to_string(cell.rank).size());
        for (const auto& column : scene.columns)
            for (auto index : column.indices) digits = std::max(digits, std::to_string(index).size());
        cell_width_ = static_cast<int>(digits) * glyph + 12;
        for (auto axis : scene.column_axes) label = std::max(label, width_of(name(axis)) + glyph);
        auto x = margin + label + 3 * gap;
        for (std::size_t c = 0; c < scene.columns.size(); ++c) {
            if (c > 0) x += is_divided(c) ? box_gap : gap;
            left_.push_back(x);
            x += cell_width_;
        }
        right_ = x;
    }

    /// The elements of the picture.
    Picture paint() {
        paint_title();
        paint_header();
        for (std::size_t r = 0; r < scene_.rows.size(); ++r) paint_row(r);
        for (const auto& fold : scene_.folded_after) paint_fold(fold);
        for (const auto& fold : scene_.folded_columns) paint_fold(fold, "…");
        for (std::size_t r = 0; r < scene_.rows.size(); ++r) paint_frames(r);
        y_ += line_height / 2;
        paint_legend();
        return {std::max(right_, widest_) + margin, y_ + margin - line_height / 2, std::move(body_)};
    }

private:
    /// Returns true if colours show the groups of the focus.
    bool colors_axes() const { return scene_.color_by < 0 && scene_.mark.empty(); }
    /// The number of the axis' colour in the palette.
    std::size_t color_number(int axis) const {
        return (scene_.axes.size() - 1 - static_cast<std::size_t>(axis)) % axis_colors;
    }
    std::string_view color(int axis) const { return palette[color_number(axis)]; }
    /// Returns true if colours show indices of an axis and a rank is also selected.
    bool selects_in_colors() const { return scene_.color_by >= 0 && scene_.selects; }
    /// The colour of a cell, if it has one.
    std::optional<Rgb> color(const Cell& cell) const {
        if (!scene_.mark.empty())
            return cell.marked ? std::optional(rgb_of(palette[marked_color])) : std::nullopt;
        if (scene_.color_by >= 0) return color_of(cell.index, colored_size());
        if (cell.peer >= 0) return rgb_of(color(cell.peer));
        return std::nullopt;
    }
    int colored_size() const { return scene_.axes[static_cast<std::size_t>(scene_.color_by)].size; }
    const std::string& name(int axis) const { return scene_.axes[static_cast<std::size_t>(axis)].name; }
    std::string label_of(const Row& row) const {
        auto text = std::string{};
        for (std::size_t i = 0; i < row.indices.size(); ++i)
            append(text, cat(i > 0 ? " " : "", name(scene_.row_axes[i]), "=", row.indices[i]));
        return text;
    }
    int box(std::size_t row, std::size_t column) const {
        return row < scene_.rows.size() && column < scene_.columns.size() ? scene_.rows[row].cells[column].box
                                                                          : -1;
    }
    /// Returns true if some row has different boxes left and right of this column's start.
    bool is_divided(std::size_t column) const {
        for (std::size_t r = 0; r < scene_.rows.size(); ++r)
            if (box(r, column) != box(r, column - 1)) return true;
        return false;
    }
    bool boxes_begin(std::size_t row) const {
        if (scene_.boxed.empty()) return false;
        for (std::size_t c = 0; c < scene_.columns.size(); ++c)
            if (box(row, c) >= 0 && (row == 0 || box(row, c) != box(row - 1, c))) return true;
        return false;
    }

    void add(const auto&... parts) { append(body_, cat(parts...)); }
    void text(int x, int y, std::string_view content, std::string_view attributes = {}) {
        add("<text x=\"", x, "\" y=\"", y, "\"", attributes, ">", escaped(content), "</text>\n");
    }
    /// Continues a line of differently coloured words at `x`.
    void word(int& x, std::string_view content, std::string_view attributes = {}) {
        text(x, y_, content, attributes);
        x += width_of(content) + glyph;
        widest_ = std::max(widest_, x);
    }
    std::string inked(int axis) const {
        return colors_axes() ? cat(" class=\"axis axis", color_number(axis), '"') : " class=\"axis\"";
    }

    void paint_title() {
        y_ = margin + line_height / 2;
        auto x = margin;
        word(x, detail::shortened(scene_.mesh, longest_title), " class=\"axis\"");
        word(x, detail::counted(scene_.size, "rank"));
        if (scene_.cluster)
            word(x, cat("on ", detail::shortened(to_string(*scene_.cluster), longest_title)),
                 " class=\"dim\"");
        y_ += line_height / 2;
    }

    void paint_header() {
        for (std::size_t i = 0; i < scene_.column_axes.size(); ++i) {
            const auto axis = scene_.column_axes[i];
            const auto* sign = scene_.wrapped && i == 0 ? "+" : "";  // relative to the row's index
            y_ += line_height;
            text(margin, y_, cat(name(axis), "="), inked(axis));
            for (std::size_t c = 0; c < scene_.columns.size(); ++c) {
                const auto& column = scene_.columns[c];
                const auto first = c == 0 || scene_.columns[c - 1].folded || column.folded ||
                                   column.indices[i] != scene_.columns[c - 1].indices[i];
                if (!first && i + 1 < scene_.column_axes.size()) continue;
                text(left_[c] + cell_width_ / 2, y_, column.folded ? "…" : cat(sign, column.indices[i]),
                     cat(" text-anchor=\"middle\"",
                         column.folded ? std::string(" class=\"dim\"") : inked(axis)));
            }
        }
        y_ += gap;
    }

    void paint_fold(const Fold& fold, std::string_view sign = "⋮") {
        y_ += fold_height;
        const auto words =
            cat(sign, " ", fold.count(), " more of ", name(fold.axis), " (", name(fold.axis), "=", fold.first,
                fold.count() > 1 ? cat("..", fold.last) : std::string{}, ") folded");
        text(left_.front(), y_ - gap, words, " class=\"dim\"");
        widest_ = std::max(widest_, left_.front() + width_of(words));
    }

    void paint_row(std::size_t r) {
        const auto& row = scene_.rows[r];
        for (const auto& fold : row.folded_before) paint_fold(fold);
        y_ += boxes_begin(r) ? label_gap : gap;
        top_.push_back(y_);
        auto x = margin;
        const auto base = y_ + cell_height - 7;
        for (std::size_t i = 0; i < row.indices.size(); ++i) {
            const auto label = cat(name(scene_.row_axes[i]), "=", row.indices[i]);
            text(x, base, label, inked(scene_.row_axes[i]));
            x += width_of(label) + glyph;
        }
        for (std::size_t c = 0; c < scene_.columns.size(); ++c) paint_cell(row.cells[c], c, base);
        y_ += cell_height;
    }

    void paint_cell(const Cell& cell, std::size_t c, int base) {
        const auto middle = left_[c] + cell_width_ / 2;
        if (scene_.columns[c].folded) return text(middle, base, "…", " text-anchor=\"middle\" class=\"dim\"");
        if (cell.rank < 0) return;
        const auto fill = color(cell);
        const auto is_focus = colors_axes() && cell.rank == scene_.focus;
        add(rectangle(left_[c], y_), " class=\"cell", is_focus ? " focus" : "", '"',
            fill ? cat(" style=\"fill:", to_text(*fill), '"') : std::string{}, "/>\n");
        if (cell.marked) {  // a corner, for readers who do not see the colour
            const auto right = left_[c] + cell_width_;
            add("<path class=\"mark\" d=\"M", right - 9, " ", y_, "H", right, "V", y_ + 9, "Z\"/>\n");
        }
        text(middle, is_focus ? base - 3 : base, std::to_string(cell.rank),
             cat(" text-anchor=\"middle\" class=\"rank",
                 is_focus                  ? " in-focus"
                 : !fill                   ? ""
                 : takes_black_text(*fill) ? " on-light"
                                           : " on",
                 "\""));
        if (is_focus) paint_band(left_[c], y_);
        if (selects_in_colors() && (cell.rank == scene_.focus || cell.peer >= 0))
            add(rectangle(left_[c], y_), " class=\"ring", cell.rank == scene_.focus ? " wide" : "", "\"/>\n");
    }
    std::string rectangle(int x, int y) const {
        return cat("<rect x=\"", x, "\" y=\"", y, "\" width=\"", cell_width_, "\" height=\"", cell_height,
                   "\" rx=\"4\"");
    }
    /// Paints a piece in the colour of each axis below the focus's number, because the focus is in all its
    /// groups.
    void paint_band(int x, int y) {
        auto axes = std::vector<int>{};
        for (std::size_t a = 0; a < scene_.axes.size(); ++a)
            if (scene_.axes[a].size > 1) axes.push_back(static_cast<int>(a));
        const auto begin = x + band_inset;
        const auto width = cell_width_ - 2 * band_inset;
        const auto edge = [&](std::size_t i) {
            return begin + width * static_cast<int>(i) / static_cast<int>(axes.size());
        };
        for (std::size_t i = 0; i < axes.size(); ++i)
            add("<rect x=\"", edge(i), "\" y=\"", y + cell_height - 7, "\" width=\"", edge(i + 1) - edge(i),
                "\" height=\"5\" style=\"fill:", color(axes[i]), "\"/>\n");
    }

    /// The sides on which a cell's box ends, and the label above the first cell of a box.
    void paint_frames(std::size_t r) {
        if (scene_.boxed.empty()) return;
        for (std::size_t c = 0; c < scene_.columns.size(); ++c) {
            const auto own = box(r, c);
            if (own < 0) continue;
            const auto near = gap + 1;
            const auto x0 = left_[c] - near;
            const auto x1 = left_[c] + cell_width_ + near;
            const auto y0 = top_[r] - near;
            const auto y1 = top_[r] + cell_height + near;
            const auto left = c > 0 && box(r, c - 1) == own;
            const auto right = box(r, c + 1) == own;
            const auto above = r > 0 && box(r - 1, c) == own;
            const auto below = box(r + 1, c) == own;
            const auto line = [&](int ax, int ay, int bx, int by) {
                add("<line class=\"frame\" x1=\"", ax, "\" y1=\"", ay, "\" x2=\"", bx, "\" y2=\"", by,
                    "\"/>\n");
            };
            // Lines continue to the next cell of the box, across anything between.
            const auto xa = left ? left_[c - 1] + cell_width_ + near : x0;
            const auto ya = above ? top_[r - 1] + cell_height + near : y0;
            if (!left) line(x0, ya, x0, y1);
            if (!right) line(x1, ya, x1, y1);
            if (!above) line(xa, y0, x1, y0);
            if (!below) line(xa, y1, x1, y1);
            const auto found = scene_.labels.find(own);
            if (!above && !left && found != scene_.labels.end() && labelled_ != own) {
                labelled_ = own;
                const auto label = fitting_label(found->second, r, c);
                text(x0, y0 - 4, label, " class=\"dim\"");
                widest_ = std::max(widest_, x0 + width_of(label));
            }
        }
    }

    /// Returns the label of the box that begins at a cell, or only its number if the label would reach the
    /// next box. The last box of a row follows the boxes before it.
    std::string fitting_label(const std::string& label, std::size_t r, std::size_t c) const {
        auto next = c + 1;
        while (next < scene_.columns.size() && (box(r, next) == box(r, c) || box(r, next) < 0)) ++next;
        const auto is_last = next == scene_.columns.size();
        const auto end = is_last ? left_.back() + cell_width_ + 2 * gap : left_[next];
        if ((is_last && c == 0) || left_[c] + width_of(label) + glyph <= end) return label;
        return label.substr(label.rfind(' ') + 1);
    }

    void paint_legend() {
        if (!scene_.mark.empty())
            paint_mark();
        else if (scene_.color_by < 0 || scene_.selects)
            paint_axes();
        if (scene_.color_by >= 0) paint_swatches();
        if (!scene_.boxed.empty()) {
            const auto& inside = scene_.cluster->levels().back();
            y_ += line_height;
            auto x = margin;
            word(x,
                 cat("each frame is one ", scene_.boxed, " (", inside.name, ":", inside.count,
                     scene_.cluster->is_even() ? "" : " at most", ")"),
                 " class=\"dim\"");
        }
        y_ += line_height / 2;
    }

    void paint_mark() {
        y_ += line_height;
        add("<rect x=\"", margin, "\" y=\"", y_ - 13,
            "\" width=\"26\" height=\"17\" rx=\"4\" style=\"fill:", palette[marked_color],
            "\"/>\n<path class=\"mark\" d=\"M", margin + 17, " ", y_ - 13, "h9v9Z\"/>\n");
        auto x = margin + 34;
        word(x, scene_.mark);
    }

    /// Paints the colours of the indices of `color_by`; if there are many, the first and the last ones.
    void paint_swatches() {
        const auto size = colored_size();
        auto others = std::string{};
        for (std::size_t a = 0; a < scene_.axes.size(); ++a)
            if (static_cast<int>(a) != scene_.color_by && scene_.axes[a].size > 1)
                append(others, cat(others.empty() ? "" : ",", scene_.axes[a].name));
        if (!others.empty()) {
            y_ += line_height;
            auto begin = margin;
            word(begin, cat("each colour is one ", others, " group"));
        }
        y_ += line_height + 4;
        auto x = margin;
        word(x, cat(name(scene_.color_by), "="));
        const auto width = width_of(std::to_string(size - 1)) + 10;
        for (int i = 0; i < std::min(size, most_swatches); ++i) {
            const auto index = size <= most_swatches
                                   ? i
                                   : static_cast<int>(std::int64_t{i} * (size - 1) / (most_swatches - 1));
            const auto fill = color_of(index, size);
            add("<rect x=\"", x, "\" y=\"", y_ - 14, "\" width=\"", width,
                "\" height=\"19\" rx=\"4\" style=\"fill:", to_text(fill), "\"/>\n");
            text(x + width / 2, y_, std::to_string(index),
                 cat(" text-anchor=\"middle\" class=\"", takes_black_text(fill) ? "on-light" : "on", "\""));
            x += width + swatch_gap;
            widest_ = std::max(widest_, x);
        }
    }

    void paint_axes() {
        auto name_width = 0;
        auto size_width = 0;
        for (const auto& entry : scene_.axes) {
            name_width = std::max(name_width, width_of(entry.name));
            size_width = std::max(size_width, width_of(std::to_string(entry.size)));
        }
        y_ += line_height;
        text(margin, y_, cat("groups of rank ", scene_.focus), " class=\"dim\"");
        for (std::size_t a = 0; a < scene_.axes.size(); ++a) {
            const auto& entry = scene_.axes[a];
            y_ += line_height;
            text(margin, y_, entry.name, inked(static_cast<int>(a)));
            text(margin + name_width + glyph, y_, std::to_string(entry.size));
            auto x = margin + name_width + size_width + 3 * glyph;
            word(x, brief(entry.terms, entry.size), inked(static_cast<int>(a)));
        }
    }

    const Scene& scene_;
    int cell_width_ = 0;
    std::vector<int> left_;  // of each column
    std::vector<int> top_;   // of each row
    int right_ = 0;
    int widest_ = 0;  // the right end of all text
    int y_ = 0;
    int labelled_ = -1;  // the box that was labelled last
    std::string body_;
};

}  // namespace

Picture picture_of(const Scene& scene) { return Painter(scene).paint(); }

}  // namespace rankmesh::view
