// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace support {

/// How often this thread has called operator new: link support/allocations.cpp, which replaces it.
std::size_t allocations();

/// The most bytes that all threads together have held at once since the last call, beside those of then.
std::size_t most_bytes();

}  // namespace support
