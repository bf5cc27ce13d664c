// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/renewal.hpp"

#include <ranges>
#include <string_view>

#include "engine/diagnosis/cause.hpp"

namespace rankmesh::detail {

void Renewal::add(Part& part) {
    const auto lock = std::lock_guard(mutex_);
    parts_.push_back(&part);
    if (why_) part.renew(*why_);
}

void Renewal::add(const std::shared_ptr<Renewal>& made, std::vector<int> ranks, bool after) {
    const auto lock = std::lock_guard(mutex_);
    std::erase_if(made_, [](const Made& each) { return each.renewal.expired(); });
    if (why_ && !after) made->hear(renewal_in_part(*why_, ranks));
    made_.push_back({made, std::move(ranks)});
}

void Renewal::hear(const Failure& why) noexcept {
    if (begun_.exchange(true)) return;
    const auto lock = std::lock_guard(mutex_);
    why_ = why;
    for (auto* part : std::views::reverse(parts_)) part->renew(why);
    pass_on(why);
}

void Renewal::begin(const Failure& why) noexcept {
    hear(why);
    const auto lock = std::lock_guard(mutex_);
    pass_on(why);
}

void Renewal::pass_on(const Failure& why) noexcept {
    for (const auto& [made, ranks] : made_)
        if (const auto renewal = made.lock()) renewal->hear(renewal_in_part(why, ranks));
}

Failure renewal_in_part(Failure failure, const std::vector<int>& ranks) {
    for (auto& each : failure.lost) each = position_of(ranks, each);
    std::erase(failure.lost, -1);
    constexpr auto of_which = std::string_view(" of the world that this one was made of");
    if (const auto end = failure.why.rfind(every_rank);
        end != std::string::npos && failure.why.find(of_which) == std::string::npos)
        failure.why.insert(end, of_which);
    return failure;
}

}  // namespace rankmesh::detail
