// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/cluster/cluster.hpp>

#include "round_trip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    return fuzz::round_trip(
        data, size, [](auto text) { return Cluster::parse(text); },
        [](auto& value) { return to_string(value); });
}
