// SPDX-License-Identifier: Apache-2.0
// The content of a picture: which ranks, boxes and legends it shows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/export.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/view/terms.hpp>

namespace rankmesh::view {

/// Consecutive indices of one axis that the picture omits.
struct Fold {
    int axis = 0;
    int first = 0;
    int last = 0;
    int count() const { return last - first + 1; }
    friend bool operator==(const Fold&, const Fold&) = default;
};

/// One position of the grid.
struct Cell {
    int rank = -1;        ///< -1: no rank is here
    int box = -1;         ///< the rank's unit of the boxed level; 0 without a cluster
    int peer = -1;        ///< the axis along which the rank is a peer of the focus; -1: none, or several
    int index = -1;       ///< the rank's index on the axis `color_by`
    bool marked = false;  ///< see `Scene::mark`
};

/// A column of the grid, or a place where columns were folded.
struct Column {
    std::vector<int> indices = {};  ///< indices on the column axes, outermost first
    bool folded = false;
};

/// A row of the grid: one cell for each column.
struct Row {
    std::vector<Fold> folded_before = {};  ///< what is omitted between the row above and this row
    std::vector<int> indices = {};         ///< indices on the row axes, outermost first
    std::vector<Cell> cells = {};
};

/// The legend of one axis.
struct LegendEntry {
    std::string name;
    int size = 1;
    std::string stride;  ///< `8`, or `(2,2):(8,1)` for several digits; empty for size 1 and for placements
    std::vector<Term> terms;  ///< the first terms of the group of the focus
};

/// The content of a picture of a mesh, independent of how it is painted.
///
/// Columns are the innermost axes of size 2 or more, rows the outer axes. A wrapped axis is both the last row
/// axis and the first column axis: its index is the sum of the row's index, where the row starts, and the
/// column's index.
///
/// Law: a rank appears in at most one cell, at the coordinate of its row and column.
/// Law: every position has a cell or lies in a fold.
/// Law: the focus has a cell. Each rank of its group along an axis has a cell or lies in a fold of that axis.
struct Scene {
    std::string mesh;  ///< the text of the mesh
    int size = 0;
    std::vector<LegendEntry> axes;  ///< the axes of the mesh, outermost first
    std::vector<int> row_axes;
    std::vector<int> column_axes;
    bool wrapped = false;
    int focus = 0;          ///< the rank whose groups the legend and the colours show
    bool selects = false;   ///< true if the subject names the focus
    int color_by = -1;      ///< the axis whose index is a cell's colour; -1: the focus's groups are coloured
    std::string mark = {};  ///< what marked ranks do: `change coordinate`; empty: this picture marks nothing

    std::vector<Column> columns;
    std::vector<Row> rows;
    std::vector<Fold> folded_columns;
    std::vector<Fold> folded_after;  ///< what is omitted below the last row

    std::optional<Cluster> cluster;
    int others = 0;                     ///< devices that the job's other meshes use
    std::string boxed;                  ///< the level with boxes; empty: none
    std::map<int, std::string> labels;  ///< names of the shown boxes, by number: `rack 1 node 3`, or `a07`
};

/// The largest picture, in cells.
struct Limits {
    int columns = 16;
    int rows = 32;         ///< a mesh of at most so many rows is drawn completely
    int tall_rows = 20;    ///< if there are more, an axis is wrapped if that suffices
    int folded_rows = 16;  ///< rows of a larger picture
};

/// Options of a picture.
struct Subject {
    std::optional<Cluster> cluster = {};
    std::optional<int> focus = {};        ///< empty: the rank at the first position
    std::optional<AxisId> color_by = {};  ///< the axis whose index colours each rank
    int others = 0;                       ///< devices that the job's other meshes use
    /// On a cluster, the axes stand in the order of their strides, so that a node is one box.
    bool by_strides = true;
};

/// Returns the picture of a mesh or placement. The cost depends on the limits, not on the number of ranks.
///
/// Throws UsageError if the mesh does not fit on the cluster, or does not contain the focus.
RANKMESH_EXPORT Scene draw(const Placement& placement, const Subject& subject, const Limits& limits);

}  // namespace rankmesh::view
