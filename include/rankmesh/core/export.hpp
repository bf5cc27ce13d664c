// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a shared library of rankmesh exports: the rest is compiled with hidden visibility.
#define RANKMESH_EXPORT [[gnu::visibility("default")]]
