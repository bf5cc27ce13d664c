// SPDX-License-Identifier: Apache-2.0
// The macro that makes a class or function visible in a shared library.
#pragma once

/// Marks what a shared library of rankmesh exports; everything else is compiled with hidden visibility.
#define RANKMESH_EXPORT [[gnu::visibility("default")]]
