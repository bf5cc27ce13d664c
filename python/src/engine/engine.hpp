// SPDX-License-Identifier: Apache-2.0
// What is bound, each in the file of its name.
#pragma once

#include "engine/handle.hpp"

namespace rankmesh::detail {
class WorldState;
struct RecordReason;
}  // namespace rankmesh::detail

namespace rankmesh::python {

/// Leaves a world, whose peers hear why; it does not keep the world.
Leave leaving(const std::shared_ptr<detail::WorldState>& world);
/// Why a flight record is written that an exception of Python ends: `KeyError: 'x'`.
detail::RecordReason reason_of(nb::handle exception);

void bind_world(nb::module_& m);
void bind_member(nb::module_& m);
void bind_communicator(nb::module_& m);
void bind_mpi4py(nb::module_& m);

}  // namespace rankmesh::python
