// SPDX-License-Identifier: Apache-2.0
#include "engine/rendezvous/failure_note.hpp"

#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/fields.hpp"

namespace rankmesh::detail {

std::string FailureNote::text() const {
    return cat(rank, " ", static_cast<std::uint32_t>(failure.kind), " ", where, "\n",
               ranks_to_string(failure.lost), "\n", ranks_to_string(failure.arrived), "\n",
               ranks_to_string(failure.missing), "\n", failure.why);
}

FailureNote FailureNote::from(std::string_view text, int size) {
    auto fields = Fields(text, "what another rank tells of a failure");
    auto note = FailureNote{};
    const auto rank = fields.number();
    const auto kind = fields.number();
    if (std::cmp_greater_equal(rank, size) || kind > static_cast<std::size_t>(Failure::Kind::engine))
        fields.throw_unreadable();
    note.rank = static_cast<int>(rank);
    note.failure.kind = static_cast<Failure::Kind>(kind);
    note.where = fields.line();
    for (auto* list : {&note.failure.lost, &note.failure.arrived, &note.failure.missing})
        *list = fields.ranks(fields.line(), static_cast<std::size_t>(size));
    note.failure.why = fields.rest();
    return note;
}

}  // namespace rankmesh::detail
