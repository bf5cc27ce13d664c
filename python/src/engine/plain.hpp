// SPDX-License-Identifier: Apache-2.0
// Arrays whose memory is not their elements: they hand it out all the same.
#pragma once

#include <string_view>

#include "values/convert.hpp"

namespace rankmesh::python {

/// True for a tensor of torch, which is then dense memory of the host; counts a write of it for autograd if
/// it is `written`. Imports nothing: a process without torch has no tensors.
///
/// Throws UsageError for other tensors of torch and for masked arrays of NumPy.
bool is_plain_tensor(nb::handle object, std::string_view what, bool written);

}  // namespace rankmesh::python
