// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// The bytes that operator new has handed out in this program so far.
std::size_t allocated_bytes();
