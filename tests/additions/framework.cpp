// SPDX-License-Identifier: Apache-2.0
// The list of the frameworks has only the one that docs/new-framework.md adds.
#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

namespace of_sample {
Framework framework();
}

/// In place of the library's.
const std::vector<Framework>& all() {
    static const auto every = std::vector<Framework>{of_sample::framework()};
    return every;
}

}  // namespace rankmesh::frameworks
