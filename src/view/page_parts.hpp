// SPDX-License-Identifier: Apache-2.0
// The files of src/view/page, which CMake compiles into a source: the page with the placeholders `@title@`,
// `@style@`, `@data@` and `@script@`, and what stands there for every mesh.
#pragma once

#include <string_view>

namespace rankmesh::view {

extern const std::string_view page_html;
extern const std::string_view page_style;
extern const std::string_view page_script;

}  // namespace rankmesh::view
