// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace rankmesh::detail {

/// `size` bytes, at most 256, that nobody can guess; throws EngineFailure if the system gives none.
std::string random_bytes(std::size_t size);

}  // namespace rankmesh::detail
