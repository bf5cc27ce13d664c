// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/checked_call.hpp"

#include <algorithm>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

MemberText MemberText::of(const Label& label) {
    auto member = MemberText{};
    std::copy_n(label.member.data(), std::min(label.member.size(), sizeof text - 1), member.text);
    return member;
}

std::string CheckedCall::text() const {
    auto called = Call(call);
    if (from_any) called.argument = any_source;
    return numbered(called, number, &label->ranks);
}

}  // namespace rankmesh::detail
