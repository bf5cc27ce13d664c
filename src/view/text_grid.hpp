// SPDX-License-Identifier: Apache-2.0
// The grid of a scene in characters, and what its title and legend share with it.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/view/scene.hpp>

#include "view/canvas.hpp"

namespace rankmesh::view {

constexpr auto dim = Ink{.dim = true};
constexpr auto bold = Ink{.bold = true};

/// Returns the colour of an axis. Innermost axes get the most distinct colours.
Ink ink_of(const Scene& scene, int axis);
inline std::u32string number(int value) { return wide(std::to_string(value)); }
inline int length(std::u32string_view text) { return static_cast<int>(text.size()); }

struct Word {
    std::u32string text;
    Ink ink = {};
};

/// Appends words in lines of at most `width` columns; longer words are cut.
void flow(std::vector<Line>& lines, const std::vector<Word>& words, int indent, int width);

std::vector<Line> paint_grid(const Scene& scene, int width);
/// Returns the column after the grid.
int end_of_grid(const Scene& scene, int width);

}  // namespace rankmesh::view
