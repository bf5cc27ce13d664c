// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/view/scene.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

#include "view/check_fits.hpp"

namespace rankmesh::view {

namespace {

constexpr auto max_terms = std::size_t{8};

/// The shown indices of an axis: the first and last few, and some shown indices around the focus.
struct Shown {
    int size = 1;   // of the axis
    int count = 1;  // shown
    int focus = 0;  // the index that is always shown

    /// Returns the shown indices, ascending.
    std::vector<int> indices() const {
        auto tail = count == size ? 0 : count == 2 ? 1 : count / 3;
        auto head = count - tail;
        auto near = 0;  // around the focus
        if (focus >= head && focus < size - tail) {
            if (focus < count) {
                head = focus + 1;
                tail = count - head;
            } else if (size - focus <= count) {
                tail = size - focus;
                head = count - tail;
            } else {
                near = std::max(1, (count + 1) / 3);
                tail = (count - near) / 2;
                head = count - near - tail;
            }
        }
        auto all = std::vector<int>{};
        for (int i = 0; i < head; ++i) all.push_back(i);
        for (int i = 0; i < near; ++i) all.push_back(focus - near / 2 + i);
        for (int i = 0; i < tail; ++i) all.push_back(size - tail + i);
        return all;
    }

    // A fold takes its own line; therefore it must omit at least two indices.
    void shrink() { count = std::max(1, std::min(count - 1, size - 2)); }
};

std::int64_t product(std::span<const Shown> shown) {
    return std::accumulate(shown.begin(), shown.end(), std::int64_t{1},
                           [](std::int64_t n, const Shown& axis) { return n * axis.count; });
}

/// Shrinks the longest axes, the outermost of equals first, until at most `room` positions are shown.
void shrink_to(std::vector<Shown>& shown, int room) {
    for (auto& axis : shown)
        if (axis.count > room) axis.count = std::max(1, std::min(room, axis.size - 2));
    while (product(shown) > room) {
        auto& longest = *std::ranges::max_element(shown, {}, &Shown::count);
        if (longest.count == 1) return;
        longest.shrink();
    }
}

/// Visits all combinations of shown indices, the last axis fastest, each with the folds since the previous
/// one. Returns the folds after the last.
template <class Visit>
std::vector<Fold> for_each_shown(const std::vector<int>& axes, const std::vector<Shown>& shown,
                                 const Visit& visit) {
    auto passed = std::vector<Fold>{};
    auto indices = std::vector<int>(axes.size());
    const auto walk = [&](const auto& self, std::size_t level) -> void {
        if (level == axes.size()) {
            visit(indices, std::exchange(passed, {}));
            return;
        }
        auto next = 0;
        const auto pass = [&](int index) {
            if (next < index) passed.push_back({axes[level], next, index - 1});
            next = index + 1;
        };
        for (const auto index : shown[level].indices()) {
            pass(index);
            indices[level] = index;
            self(self, level + 1);
        }
        if (next < shown[level].size) passed.push_back({axes[level], next, shown[level].size - 1});
    };
    walk(walk, 0);
    return passed;
}

/// Which axes are columns and rows, and which of their indices are shown.
struct Plan {
    std::vector<int> row_axes;
    std::vector<int> column_axes;
    std::vector<Shown> rows;
    std::vector<Shown> columns;
    int wrap = 0;  // indices per row of the wrapped axis (last row and first column axis); 0: none
};

/// Returns the indices per row of a wrapped axis: whole units of the cluster if they fit, else a divisor,
/// else as many as fit.
int wrap_of(int size, int room, int unit) {
    room = std::min(room, size);
    if (unit > 1 && unit <= room) {
        auto best = unit;
        for (int width = unit; width <= room; width += unit)
            if (size % width == 0) best = width;
        return best;
    }
    for (int width = room; width * 2 > room; --width)
        if (size % width == 0) return width;
    for (int width = 1 << 30; width > 1; width /= 2)
        if (width <= room) return width;
    return 1;
}

/// `focus` is the index of the focus on each axis of the mesh.
Plan plan_of(const Mesh& mesh, const std::vector<int>& focus, const Limits& limits, int unit,
             bool by_strides) {
    auto axes = std::vector<int>{};  // axes of size 2 or more
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (mesh.size(AxisId{a}) > 1) axes.push_back(a);
    if (unit > 0 && by_strides)
        std::ranges::stable_sort(axes, std::greater{},
                                 [&](int axis) { return mesh.layout(AxisId{axis}).digit(0).stride; });
    const auto size = [&](std::size_t i) { return mesh.size(AxisId{axes[i]}); };

    // Innermost axes become columns while they fit and the picture is tall; one axis remains for the rows.
    auto first = axes.size();  // the first column axis
    auto columns = 1;
    auto rows = mesh.size();
    auto chunks = 0;  // rows of the wrapped axis
    auto wrap = 0;
    while (first > 0) {
        const auto next = size(first - 1);
        const auto is_first = first == axes.size();
        if (!is_first && rows <= 2 * std::int64_t{columns}) break;
        const auto fits = next <= limits.columns / columns;
        if (fits && (is_first || first > 1)) {
            columns *= next;
            rows /= next;
            --first;
            continue;
        }
        // Wrap the next axis if that shows all of a picture that is too tall or too wide.
        if (!is_first && rows <= limits.tall_rows) break;
        const auto width = wrap_of(next, limits.columns / columns, unit % columns == 0 ? unit / columns : 0);
        chunks = (next - 1) / width + 1;
        if (axes.size() == 1 || (width > 1 && std::int64_t{rows / next} * chunks <= limits.rows))
            wrap = width;
        break;
    }
    if (first == axes.size() && first > 0 && wrap == 0) --first;

    auto plan = Plan{.row_axes = {}, .column_axes = {}, .rows = {}, .columns = {}, .wrap = wrap};
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const auto is_wrapped = wrap > 0 && i + 1 == first;
        const auto index = focus[static_cast<std::size_t>(axes[i])];
        const auto all = [](int count, int shown) { return Shown{count, count, shown}; };
        if (i < first) {
            plan.row_axes.push_back(axes[i]);
            plan.rows.push_back(is_wrapped ? all(chunks, index / wrap) : all(size(i), index));
        }
        if (i >= first || is_wrapped) {
            plan.column_axes.push_back(axes[i]);
            plan.columns.push_back(is_wrapped ? all(wrap, index % wrap) : all(size(i), index));
        }
    }
    if (product(plan.columns) > limits.columns) shrink_to(plan.columns, std::max(1, limits.columns - 1));
    if (product(plan.rows) > limits.rows) shrink_to(plan.rows, limits.folded_rows);
    return plan;
}

LegendEntry note_of(const Placement& placement, AxisId axis, int focus) {
    const auto& mesh = placement.mesh();
    const auto digits = mesh.layout(axis);
    auto entry = LegendEntry{.name = std::string(mesh.name(axis)),
                             .size = mesh.size(axis),
                             .stride = !placement.table().empty() || digits.digit_count() == 0 ? ""
                                       : digits.digit_count() == 1 ? std::to_string(digits.digit(0).stride)
                                                                   : to_string(digits),
                             .terms = {}};
    auto set = AxisSet{};
    set.insert(axis);
    entry.terms = first_terms(placement.group(focus, set), run_along(placement, set), max_terms);
    return entry;
}

/// Makes the cells of a scene.
struct Cells {
    const Placement& placement;
    const Plan& plan;
    const std::vector<int>& focus;  ///< the coordinate of the focus
    int boxed;                      ///< the level of the boxes; -1: none
    Scene& scene;

    /// Returns the coordinate of a cell; nullopt after the end of a wrapped axis.
    std::optional<std::vector<int>> position(const Row& row, const Column& column) const {
        auto position = std::vector<int>(focus.size());
        for (std::size_t i = 0; i < row.indices.size(); ++i)
            position[static_cast<std::size_t>(plan.row_axes[i])] = row.indices[i];
        for (std::size_t i = 0; i < column.indices.size(); ++i) {
            const auto axis = plan.column_axes[i];
            const auto start = scene.wrapped && i == 0 ? row.indices.back() : 0;
            if (column.indices[i] >= placement.mesh().size(AxisId{axis}) - start) return std::nullopt;
            position[static_cast<std::size_t>(axis)] = start + column.indices[i];
        }
        return position;
    }

    Cell make(const Row& row, const Column& column) const {
        const auto at = column.folded ? std::nullopt : position(row, column);
        if (!at) return {};
        auto cell = Cell{.rank = placement.rank_at(*at), .box = 0};
        auto differing = 0;
        for (std::size_t a = 0; a < focus.size(); ++a)
            if ((*at)[a] != focus[a]) {
                ++differing;
                cell.peer = static_cast<int>(a);
            }
        if (differing != 1) cell.peer = -1;
        if (scene.color_by >= 0) cell.index = (*at)[static_cast<std::size_t>(scene.color_by)];
        if (boxed >= 0) {
            cell.box = scene.cluster->unit(cell.rank, boxed);
            auto& label = scene.labels[cell.box];
            if (label.empty()) label = scene.cluster->unit_name(cell.box, boxed);
        }
        return cell;
    }
};

}  // namespace

Scene draw(const Placement& placement, const Subject& subject, const Limits& limits) {
    const auto& mesh = placement.mesh();
    auto scene = Scene{};
    scene.mesh = to_string(placement);
    scene.size = placement.size();
    scene.cluster = subject.cluster;
    scene.others = subject.others;
    scene.focus = subject.focus.value_or(placement.ranks()[0]);
    scene.selects = subject.focus.has_value();
    if (subject.color_by) {
        static_cast<void>(mesh.name(*subject.color_by));  // throws for an axis that the mesh does not have
        scene.color_by = subject.color_by->index;
    }
    for (int a = 0; a < mesh.axis_count(); ++a)
        scene.axes.push_back(note_of(placement, AxisId{a}, scene.focus));

    auto boxed = -1;
    auto unit = 0;  // devices in the first box
    if (subject.cluster) {
        check_fits(placement, *subject.cluster);
        boxed = subject.cluster->level_count() - 2;
        if (boxed >= 0) {
            scene.boxed = subject.cluster->levels()[static_cast<std::size_t>(boxed)].name;
            unit = subject.cluster->unit_size(0, boxed);
        }
    }

    auto focus = std::vector<int>{};
    for (int a = 0; a < mesh.axis_count(); ++a) focus.push_back(placement.index(scene.focus, AxisId{a}));
    const auto plan = plan_of(mesh, focus, limits, unit, subject.by_strides);
    scene.row_axes = plan.row_axes;
    scene.column_axes = plan.column_axes;
    scene.wrapped = plan.wrap > 0;
    const auto fold_columns = [&](const std::vector<Fold>& folds) {
        if (!folds.empty()) scene.columns.push_back({.indices = {}, .folded = true});
        for (const auto& fold : folds)  // folds of an inner axis repeat
            if (std::ranges::find(scene.folded_columns, fold) == scene.folded_columns.end())
                scene.folded_columns.push_back(fold);
    };
    fold_columns(for_each_shown(plan.column_axes, plan.columns,
                                [&](const std::vector<int>& indices, const std::vector<Fold>& folds) {
                                    fold_columns(folds);
                                    scene.columns.push_back({.indices = indices});
                                }));

    const auto cells = Cells{placement, plan, focus, boxed, scene};
    // Until here, folds of a wrapped axis count rows; convert them to indices.
    const auto unwrapped = [&](std::vector<Fold> folds) {
        for (auto& fold : folds)
            if (scene.wrapped && fold.axis == plan.row_axes.back()) {
                fold.first *= plan.wrap;
                const auto end = std::int64_t{fold.last + 1} * plan.wrap;
                fold.last = static_cast<int>(std::min<std::int64_t>(end, mesh.size(AxisId{fold.axis}))) - 1;
            }
        return folds;
    };
    scene.folded_after = unwrapped(for_each_shown(
        plan.row_axes, plan.rows, [&](const std::vector<int>& indices, std::vector<Fold> folds) {
            auto row = Row{.folded_before = unwrapped(std::move(folds)), .indices = indices};
            if (scene.wrapped) row.indices.back() *= plan.wrap;
            for (const auto& column : scene.columns) row.cells.push_back(cells.make(row, column));
            scene.rows.push_back(std::move(row));
        }));
    return scene;
}

}  // namespace rankmesh::view
