// SPDX-License-Identifier: Apache-2.0
// The interface that a user asks for: what a subnet selects is in it, by the arithmetic of addresses.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>
#include <optional>
#include <string>

#include "engine/hosts/hosts.hpp"

#include "law.hpp"

namespace {

std::optional<std::uint32_t> address_of(const std::string& text) {
    auto address = in_addr{};
    if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
    return ntohl(address.s_addr);
}

/// Whether 10.1.2.3 is in a subnet such as 10.0.0.0/8, or is that address.
bool is_in(const std::string& wanted) {
    const auto slash = wanted.find('/');
    const auto net = address_of(wanted.substr(0, slash));
    auto bits = 32;
    if (slash != std::string::npos) {
        const auto text = wanted.substr(slash + 1);
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
        if (error != std::errc() || end != text.data() + text.size() || bits < 0 || bits > 32) return false;
    }
    const auto own = address_of("10.1.2.3");
    return net && (bits == 0 || *net >> (32 - bits) == *own >> (32 - bits));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    const auto wanted = std::string(fuzz::bytes_of(data, size));
    const auto four = detail::Interface{.name = "eth0", .address = "10.1.2.3", .family = AF_INET};
    const auto six = detail::Interface{.name = "eth0", .address = "fd00::1:2", .family = AF_INET6};
    const auto is_named = wanted.empty() || wanted == "eth0";
    fuzz::require(detail::is_selected(four, wanted) == (is_named || is_in(wanted)),
                  "an interface is selected by its name or by its address");
    if (detail::is_selected(six, wanted))
        fuzz::require(is_named || wanted.find(':') != wanted.npos, "an IPv6 address has colons");
    return 0;
}
