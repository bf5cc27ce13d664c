// SPDX-License-Identifier: Apache-2.0
// The memory of a Python object, as a buffer for collectives.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <rankmesh/engine/buffer.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// An input or output of an operation: the elements of an array, which lives at least as long as this.
struct Array : detail::AnyBuffer<void> {
    std::shared_ptr<void> keep = nullptr;  ///< keeps the memory alive; released with the GIL held
};

/// Returns the memory of a NumPy array, a CPU tensor, or another object with the buffer protocol or DLPack.
/// It must be contiguous and row-major.
///
/// Throws TypeFault for other objects. Throws UsageError for memory of another device, other strides, types
/// that no engine moves, and for an output in read-only memory. `what` names the argument, such as "the
/// output of all_reduce".
Array array_of(nb::handle object, std::string_view what, bool written);

}  // namespace rankmesh::python
