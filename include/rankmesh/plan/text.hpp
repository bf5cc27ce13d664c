// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// `pp=4 dp=8 tp=8 vpp=2 mbs=1 zero=1 recompute=full:3 first=7 last=6`: the mesh, then what else differs from
/// a layout of one device; `sp=0` where tensor-parallel ranks do not share the sequence.
RANKMESH_EXPORT std::string to_string(const Layout& layout);

/// The words of a layout beside its mesh: `vpp=2 mbs=1 zero=1 recompute=full`.
RANKMESH_EXPORT std::string settings_text(const Layout& layout);

/// Reads such a text, its words in any order; dp is what `devices` leave where it is not said, and 0 devices
/// say nothing. Throws UsageError.
///
/// Law: `read_layout(to_string(layout)) == layout`.
RANKMESH_EXPORT Layout read_layout(std::string_view text, int devices = 0);

/// `none`, `selective`, `full`, `elementwise` or `operations`.
RANKMESH_EXPORT std::string_view to_string(Recompute recompute);

}  // namespace rankmesh::plan
