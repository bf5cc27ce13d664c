// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/failure_note.hpp"

#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/diagnosis/failure_text.hpp"
#include "engine/fields.hpp"

namespace rankmesh::detail {

std::string FailureNote::text() const {
    return cat(rank, " ", static_cast<std::uint32_t>(failure.kind), " ", where, "\n", text_of(failure), '\0');
}

FailureNote FailureNote::from(std::string_view text, int size) {
    auto fields = Fields(text, "what another rank tells of a failure");
    auto note = FailureNote{};
    const auto rank = fields.number();
    const auto kind = fields.number();
    if (std::cmp_greater_equal(rank, size) || kind > static_cast<std::size_t>(Failure::Kind::renewed))
        fields.throw_unreadable();
    note.rank = static_cast<int>(rank);
    note.where = fields.line();
    note.failure =
        failure_from(static_cast<std::uint32_t>(kind), fields.rest(), static_cast<std::size_t>(size));
    return note;
}

}  // namespace rankmesh::detail
