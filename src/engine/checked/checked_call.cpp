// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/checked_call.hpp"

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

std::string CheckedCall::text() const {
    auto called = Call(call);
    if (from_any) called.argument = any_source;
    return numbered(called, number, &label->ranks);
}

}  // namespace rankmesh::detail
