// SPDX-License-Identifier: Apache-2.0
// The reduction by which ranks compare plans before they are connected.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "engine/fields.hpp"
#include "engine/membership/rendezvous.hpp"

namespace rankmesh::detail {

using Numbers = std::array<std::int64_t, 4>;

/// Numbers as ranks send them to each other.
inline std::string packed(const Numbers& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), sizeof numbers};
}

/// Reads what `packed` has written; throws EngineFailure for anything else.
inline Numbers unpacked(const std::string& text) {
    auto numbers = Numbers{};
    if (text.size() != sizeof numbers)
        Fields({}, "what another rank's plan is compared by").throw_unreadable();
    std::memcpy(numbers.data(), text.data(), sizeof numbers);
    return numbers;
}

/// The elementwise maximum.
inline Numbers most_of(Numbers a, const Numbers& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::max(a[i], b[i]);
    return a;
}

/// Collective: the elementwise maximum over all ranks.
inline Numbers max_over(Rendezvous& rendezvous, const Numbers& own) {
    return unpacked(rendezvous.all("join", packed(own), [](const std::string& a, const std::string& b) {
        return packed(most_of(unpacked(a), unpacked(b)));
    }));
}

}  // namespace rankmesh::detail
