// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convert/frameworks.hpp"

namespace rankmesh::frameworks {
struct Framework;
}

namespace rankmesh::conversion {

/// A framework that is described by rows, which must outlive it.
Framework of_rows(const frameworks::Framework& rows);

}  // namespace rankmesh::conversion
