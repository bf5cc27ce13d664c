// SPDX-License-Identifier: Apache-2.0
// The macro that makes a class or function visible in a shared library.
#pragma once

#if __cplusplus < 201709L  // of GCC 10 with -std=c++20
#error \
    "rankmesh requires C++20: compile with -std=c++20, or link rankmesh::rankmesh with CMake, which sets the flag"
#endif

/// Marks what a shared library of rankmesh exports; everything else is compiled with hidden visibility.
#define RANKMESH_EXPORT [[gnu::visibility("default")]]
