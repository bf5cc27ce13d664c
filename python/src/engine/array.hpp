// SPDX-License-Identifier: Apache-2.0
// The memory behind a Python object, as collectives take it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <rankmesh/engine/buffer.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// What an operation reads or writes: the elements of an array, which lives at least as long as this.
struct Array : detail::AnyBuffer<void> {
    std::shared_ptr<void> keep = nullptr;  ///< what holds the memory; released with the GIL held
};

/// The memory of a NumPy array, a CPU tensor, or what else has the buffer protocol or DLPack, whose elements
/// lie one after the other in row-major order.
///
/// Throws TypeFault for what is no array, UsageError for memory of another device, other strides, types that
/// no engine moves, and for read-only memory that would be written; `what` is it in the operation, such as
/// "the output of all_reduce".
Array array_of(nb::handle object, std::string_view what, bool written);

}  // namespace rankmesh::python
