// SPDX-License-Identifier: Apache-2.0
// The memory of a Python object, as a buffer for collectives.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <rankmesh/engine/buffer.hpp>
#include <rankmesh/engine/detail/memory_layout.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// An input or output of an operation: the elements of an array, which lives at least as long as this.
struct Array : detail::AnyBuffer<void> {
    std::shared_ptr<void> keep = nullptr;  ///< keeps the memory alive; released with the GIL held
    std::shared_ptr<const detail::MemoryLayout> layout = nullptr;  ///< null: contiguous and row-major
};

/// Returns the memory of a NumPy array, a CPU tensor, or another object with the buffer protocol or DLPack.
///
/// Throws TypeFault for other objects. Throws UsageError for memory of another device, types that no engine
/// moves, and for an output in read-only memory. `what` names the argument, such as "the output of
/// all_reduce".
Array array_of(nb::handle object, std::string_view what, bool written);
/// The same; throws UsageError unless the array is contiguous and row-major.
Array contiguous_array_of(nb::handle object, std::string_view what, bool written);

/// An array that is written, with its dimensions.
struct FieldArray : Array {
    std::vector<detail::MemoryLayout::Dimension> dimensions = {};
};
FieldArray field_of(nb::handle object, std::string_view what);

}  // namespace rankmesh::python
