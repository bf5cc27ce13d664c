// SPDX-License-Identifier: Apache-2.0
// Checks for arrays whose memory is not their elements, although they expose it.
#pragma once

#include <string_view>

#include "values/convert.hpp"

namespace rankmesh::python {

/// Returns true for a torch tensor, which is then dense host memory. If it is `written`, counts the write for
/// autograd. Imports nothing, because a process without torch has no tensors.
///
/// Throws UsageError for other torch tensors, and for masked arrays of NumPy.
bool is_plain_tensor(nb::handle object, std::string_view what, bool written);

}  // namespace rankmesh::python
