// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/ranks.hpp>

#include "round_trip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    // A long list takes long: here they are short, so that many are read.
    return fuzz::round_trip(
        data, size, [](auto text) { return parse_ranks(text, 4096); },
        [](auto& ranks) { return ranks_to_string(ranks); });
}
