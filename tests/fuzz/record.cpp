// SPDX-License-Identifier: Apache-2.0
// A flight record, as JSON or as a pickle: any bytes are read, and explained, or refused in words.
#include <rankmesh/explain/read.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "explained.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    const auto bytes = std::string_view(reinterpret_cast<const char*>(data), size);
    try {
        auto reader = RecordReader();
        auto records = std::vector{reader.read(bytes, "rank_0")};
        // What is said of a world takes as long as it has ranks: here it has few, so that many records are
        // read.
        constexpr auto few = 4096;
        auto& first = records.front();
        if (first.world_size) first.world_size = std::min(*first.world_size, few);
        auto most = first.rank;
        for (const auto& group : first.groups)
            for (const auto rank : group->ranks) most = std::max(most, rank);
        if (most >= few) return 0;
        // Beside a rank that says the same, and one that stopped earlier.
        records.push_back(records.front());
        records.back().rank = records.front().rank + 1;
        records.push_back(records.front());
        records.back().rank = records.front().rank + 2;
        if (!records.back().entries.empty()) records.back().entries.pop_back();
        fuzz::expect_clean(explain(records));
    } catch (const UsageError& error) {
        fuzz::expect_clean(error.what());
    }
    return 0;
}
