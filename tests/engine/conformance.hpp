// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <rankmesh/engine/world.hpp>

/// Runs `program` on every rank of a world, or of several worlds in turn: what each engine's conformance test
/// brings.
void on_every_rank(const std::function<void(rankmesh::World&)>& program);
