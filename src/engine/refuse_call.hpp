// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/core/error.hpp>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// Throws UsageError: `send on 'dp' of mesh dp=2`, then `parts`. In a function of its own, so that a call
/// without a fault takes few instructions.
template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void refuse_call(const Call& call, const CommunicatorState& state,
                                                        const Parts&... parts) {
    throw UsageError(cat(to_string(call.operation), " on ", state.label->text(), parts...));
}

}  // namespace rankmesh::detail
