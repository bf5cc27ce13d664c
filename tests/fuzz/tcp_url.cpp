// SPDX-License-Identifier: Apache-2.0
// The URL of the store that rank 0 serves, and of a second one.
#include "engine/store/tcp_url.hpp"

#include <tuple>

#include "round_trip.hpp"

namespace {

struct Urls : rankmesh::detail::TcpUrls {
    static auto fields(const rankmesh::detail::TcpUrl& url) {
        return std::tuple(url.host, url.first_port, url.last_port);
    }
    bool operator==(const Urls& other) const {
        return fields(first) == fields(other.first) && second.has_value() == other.second.has_value() &&
               (!second || fields(*second) == fields(*other.second));
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return rankmesh::fuzz::round_trip(
        data, size, [](auto text) { return Urls{rankmesh::detail::TcpUrls::parse(text)}; },
        [](auto& value) { return value.text(); });
}
