// SPDX-License-Identifier: Apache-2.0
// Settings from this process's environment.
#pragma once

#include <initializer_list>

#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh::detail {

/// The number in the first of these variables that is set; throws UsageError if it is not a number of `least`
/// or more.
std::optional<Announced> number_in_environment(std::initializer_list<const char*> variables, int least);

/// True for a process of torchrun, also where another launcher, such as srun, has started torchrun.
bool is_of_torchrun();

/// The name of the engine that a world of these options gets, as it was given.
std::string engine_of(const WorldOptions& options);

/// Prints, once a process, which variables of the network and the store are set and have no effect on this
/// engine.
void tell_unused(std::string_view engine);

}  // namespace rankmesh::detail
