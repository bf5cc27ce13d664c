// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace rankmesh::detail {

/// `size` bytes, at most 256, that nobody can guess; throws EngineFailure if the system gives none.
std::string random_bytes(std::size_t size);
/// 128 such bits in hexadecimal digits.
std::string new_secret();

}  // namespace rankmesh::detail
