// SPDX-License-Identifier: Apache-2.0
// The URL of the store that rank 0 serves.
#include "engine/store/url.hpp"

#include "round_trip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return rankmesh::fuzz::round_trip(
        data, size, [](auto text) { return rankmesh::detail::TcpUrl::parse(text); },
        [](auto& value) { return value.text(); });
}
