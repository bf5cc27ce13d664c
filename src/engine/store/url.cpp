// SPDX-License-Identifier: Apache-2.0
#include "engine/store/url.hpp"

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

bool is_url(std::string_view store) {
    return store.find("://") != store.npos || store.starts_with("redis:") || store.starts_with("rediss:") ||
           store.starts_with("tcp:");
}

int number_in_url(std::string_view url, std::string_view what, std::string_view text, int least, int most,
                  std::string_view form) {
    const auto value = number_in(text);
    if (!value || *value < least || *value > most)
        throw UsageError(cat("the store '", url, "' has the ", what, " '", text,
                             "', which is no whole number of ", least, " to ", most, "; ", form));
    return *value;
}

HostAndPort HostAndPort::parse(std::string_view url, std::string_view text, std::string_view form) {
    auto parsed = HostAndPort{};
    auto end = text.find(':');
    if (text.starts_with('[')) {
        const auto bracket = text.find(']');
        if (bracket == text.npos)
            throw UsageError(cat("the store '", url, "' has a '[' without a ']'; ", form));
        parsed.host = text.substr(1, bracket - 1);
        end = bracket + 1;
        if (end < text.size() && text[end] != ':')
            throw UsageError(
                cat("the store '", url, "' has '", text.substr(end), "' behind the address; ", form));
    } else {
        if (end != text.rfind(':'))
            throw UsageError(cat("the store '", url, "' has more than one ':' in '", text,
                                 "'; an IPv6 address stands in brackets, such as ",
                                 url.substr(0, url.find(':')), "://[::1]:6379"));
        parsed.host = text.substr(0, end);
    }
    if (parsed.host.find_first_of("[]") != parsed.host.npos)
        throw UsageError(
            cat("the store '", url, "' has a '[' or ']' inside its host '", parsed.host, "'; ", form));
    if (parsed.host.empty()) throw UsageError(cat("the store '", url, "' names no host; ", form));
    if (end < text.size()) parsed.port = text.substr(end + 1);
    return parsed;
}

std::string host_in_url(const std::string& host) {
    return host.find(':') == host.npos ? host : cat("[", host, "]");
}

}  // namespace rankmesh::detail
