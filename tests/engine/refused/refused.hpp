// SPDX-License-Identifier: Apache-2.0
// Compiled once, for all files here: the first line of each is what the compiler must say of it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <rankmesh/engine/world.hpp>

using namespace rankmesh;
