// SPDX-License-Identifier: Apache-2.0
// Writes and reads layouts as text.
#pragma once

#include <string>
#include <string_view>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// Returns a layout as text: the mesh, then all settings that differ from their defaults. `sp=0` means that
/// tensor-parallel ranks do not shard the sequence. `pp=4 dp=8 tp=8 vpp=2 mbs=1 zero=1 recompute=full:3
/// first=7 last=6`
RANKMESH_EXPORT std::string to_string(const Layout& layout);

/// Returns the settings of a layout without its mesh: `vpp=2 mbs=1 zero=1 recompute=full`.
RANKMESH_EXPORT std::string settings_text(const Layout& layout);

/// Reads the text of a layout, its words in any order. A missing dp is computed from `devices`, unless that
/// is 0. Throws UsageError for any other text.
///
/// Law: `read_layout(to_string(layout)) == layout`.
RANKMESH_EXPORT Layout read_layout(std::string_view text, int devices = 0);

/// Returns `none`, `selective`, `full`, `elementwise` or `operations`.
RANKMESH_EXPORT std::string_view to_string(Recompute recompute);

}  // namespace rankmesh::plan
