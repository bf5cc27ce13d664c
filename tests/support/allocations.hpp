// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace support {

/// How often operator new was called in this program: link support/allocations.cpp, which replaces it.
std::size_t allocations();

}  // namespace support
