// SPDX-License-Identifier: Apache-2.0
// The URL of a Redis server.
#include "engine/store/url.hpp"

#include "round_trip.hpp"

namespace {

struct Url : rankmesh::detail::RedisUrl {
    bool operator==(const Url& other) const {
        return host == other.host && port == other.port && database == other.database;
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return rankmesh::fuzz::round_trip(
        data, size, [](auto text) { return Url{rankmesh::detail::RedisUrl::parse(text)}; },
        [](auto& value) { return value.text(); });
}
