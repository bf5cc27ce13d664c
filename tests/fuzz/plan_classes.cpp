// SPDX-License-Identifier: Apache-2.0
// What ranks send each other when their plans differ: what is read is sent on as it was, and stays small.
#include "engine/join/agree.hpp"

#include <algorithm>

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    fuzz::read_or_refuse<EngineFailure>([&] {
        constexpr auto world = 64;
        const auto classes = detail::unpack(fuzz::bytes_of(data, size), world);
        for (const auto& each : classes)
            fuzz::require(each.ranks.size() <= world, "a short text gives a short list");
        fuzz::require(detail::unpack(detail::pack(classes), world) == classes, "what is sent is read again");
        auto folded = std::vector<detail::PlanClass>{};
        auto before = std::size_t{0};
        for (const auto& each : classes) {
            detail::merge(folded, each);
            before += each.ranks.size();
        }
        detail::fold(folded);
        auto after = std::size_t{0};
        for (const auto& each : folded) after += each.ranks.size();
        fuzz::require(folded.size() <= 9, "few descriptions are sent on");
        fuzz::require(before == after, "no rank is lost on the way");
    });
    return 0;
}
