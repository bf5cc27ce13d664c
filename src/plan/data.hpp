// SPDX-License-Identifier: Apache-2.0
// The tables in src/plan/data as text.
#pragma once

#include <string_view>

namespace rankmesh::plan {

extern const std::string_view devices_csv;
extern const std::string_view families_csv;  // in rankmesh::convert
extern const std::string_view models_csv;
extern const std::string_view stacks_csv;

}  // namespace rankmesh::plan
