// SPDX-License-Identifier: Apache-2.0
// The lists of calls that monitors send each other: a difference is one of the calls that both have made.
#include <array>
#include <vector>

#include "engine/gloo/monitor/call_history.hpp"

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    using Kind = detail::CallHistory::Kind;
    constexpr auto calls = std::size_t{8};
    if (size < 2 * calls) return 0;
    // Each of two ranks makes eight calls; a byte says which.
    auto histories = std::array<detail::CallHistory, 2>{};
    const auto made = [&](std::size_t rank, std::size_t i) {
        return std::size_t{data[rank * calls + i]} % 16;
    };
    for (std::size_t rank = 0; rank < 2; ++rank)
        for (std::size_t i = 0; i < calls; ++i) {
            auto call = detail::Call{.operation = detail::Operation::all_reduce, .dtype = DType::f32};
            call.in_count = call.out_count = made(rank, i) + 1;
            histories[rank].add(call, i + 1, 2);
        }
    auto first = std::size_t{0};
    while (first < calls && made(0, first) == made(1, first)) ++first;
    const auto number = first < calls ? first + 1 : 0;
    const auto number_of = [](const detail::CallHistory::Entry* entry) { return entry ? entry->number : 0; };
    for (auto rank : {0, 1}) {
        const auto other = 1 - rank;
        const auto listed = histories[static_cast<std::size_t>(other)].list_for(rank, other);
        const auto& own = histories[static_cast<std::size_t>(rank)];
        fuzz::require(number_of(own.first_difference(other, rank, listed.data(), listed.size())) == number,
                      "the first difference is found");
        // And the same of what is no such list.
        const auto* entry = own.first_difference(other, rank, reinterpret_cast<const char*>(data), size);
        fuzz::require(!entry || own.find(Kind::collective, -1, entry->number) == entry,
                      "a difference is one of the own calls");
    }
    return 0;
}
