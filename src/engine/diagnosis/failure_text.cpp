// SPDX-License-Identifier: Apache-2.0
#include "engine/diagnosis/failure_text.hpp"

#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/text.hpp>

#include "engine/fields.hpp"

namespace rankmesh::detail {

std::string text_of(const Failure& failure, std::size_t most) {
    auto text = std::string{};
    for (const auto* list : {&failure.lost, &failure.arrived, &failure.missing}) {
        const auto ranks = ranks_to_string(*list);
        append(text, ranks.size() < most / 4 ? ranks : "{}");  // the reason names them as well
        text += '\0';
    }
    text += failure.why;
    constexpr auto worth_sending = std::size_t{60};
    if (const auto used = text.size() + 2; !failure.seen.empty() && used + worth_sending < most)
        text += cat('\0', shortened(failure.seen, most - used));
    return text;
}

Failure failure_from(std::uint32_t kind, std::string_view text, std::size_t most_ranks) {
    auto fields = Fields(text, "what another rank tells of a failure");
    if (kind > static_cast<std::uint32_t>(Failure::Kind::renewed)) fields.throw_unreadable();
    auto failure = Failure{.kind = static_cast<Failure::Kind>(kind), .why = {}};
    for (auto* list : {&failure.lost, &failure.arrived, &failure.missing})
        *list = fields.ranks(fields.until('\0'), most_ranks);
    failure.why = fields.until('\0');
    if (!fields.at_end()) failure.seen = fields.until('\0');
    return failure;
}

}  // namespace rankmesh::detail
