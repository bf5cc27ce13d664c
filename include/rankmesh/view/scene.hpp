// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/view/terms.hpp>

namespace rankmesh::view {

/// A run of indices of one axis that the picture leaves out.
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
    int box = -1;         ///< the unit of the boxed level in which the rank runs, 0 for all without a cluster
    int peer = -1;        ///< the axis along which it is a peer of the focus, if along one alone
    int index = -1;       ///< on the axis that is coloured by
    bool marked = false;  ///< as the scene's `mark` says
};

/// A column of the grid, or the place where columns were folded.
struct Column {
    std::vector<int> indices = {};  ///< on the column axes, outermost first
    bool folded = false;
};

/// A row of the grid: one cell a column.
struct Row {
    std::vector<Fold> folded_before = {};  ///< what is left out between the row above and this one
    std::vector<int> indices = {};         ///< on the row axes, outermost first
    std::vector<Cell> cells = {};
};

/// The legend's entry of one axis.
struct LegendEntry {
    std::string name;
    int size = 1;
    std::string
        stride;  ///< `8`, `(2,2):(8,1)` for several digits, empty for size 1 and where a table places ranks
    std::vector<Term> terms;  ///< the first few of the group of the focus
};

/// What a picture of a mesh shows, without a word on how it is painted.
///
/// Columns are the innermost axes of more than one position, rows the outer ones. A wrapped axis is both, the
/// last row axis and the first column axis: its row index says where the row starts, its column index counts
/// on.
///
/// Law: a rank appears in at most one cell, at the coordinate that its row and column say.
/// Law: a position without a cell lies in a fold: every position is shown or said to be folded.
/// Law: the focus has a cell; of its group along an axis, each rank has a cell or lies in a fold of that
/// axis.
struct Scene {
    std::string mesh;  ///< in the notation
    int size = 0;
    std::vector<LegendEntry> axes;  ///< of the mesh, outermost first
    std::vector<int> row_axes;
    std::vector<int> column_axes;
    bool wrapped = false;
    int focus = 0;         ///< the rank whose groups the legend and the colours show
    bool selects = false;  ///< true if the subject names the focus
    int color_by = -1;  ///< the axis whose index is the colour of a cell; -1: its groups with the focus are
    std::string mark =
        {};  ///< what marked cells have in common: `change coordinate`; empty where none can be marked

    std::vector<Column> columns;
    std::vector<Row> rows;
    std::vector<Fold> folded_columns;
    std::vector<Fold> folded_after;  ///< what is left out below the last row

    std::optional<Cluster> cluster;
    std::string boxed;                  ///< the level that is boxed, empty for none
    std::map<int, std::string> labels;  ///< of the boxes shown, by number: `rack 1 node 3`, or a name
};

/// The largest picture, in cells.
struct Limits {
    int columns = 16;
    int rows = 32;         ///< a mesh of no more rows is drawn whole
    int tall_rows = 20;    ///< where there are more, an axis is wrapped if that helps
    int folded_rows = 16;  ///< the rows of a larger one
};

/// What is drawn, and of which ranks.
struct Subject {
    std::optional<Cluster> cluster = {};
    std::optional<int> focus = {};        ///< empty: the rank at the first position
    std::optional<AxisId> color_by = {};  ///< the axis whose index colours each rank
};

/// The picture of a mesh; its cost depends on the limits, not on the number of ranks.
///
/// Throws UsageError if the mesh does not fit on the cluster, or does not contain the focus.
RANKMESH_EXPORT Scene draw(const Mesh& mesh, const Subject& subject, const Limits& limits);
RANKMESH_EXPORT Scene draw(const Placement& placement, const Subject& subject, const Limits& limits);

}  // namespace rankmesh::view
