// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace support {

/// How often this thread has called operator new: link support/allocations.cpp, which replaces it.
std::size_t allocations();

}  // namespace support
