// SPDX-License-Identifier: Apache-2.0
// Parts of the URLs of all stores.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rankmesh::detail {

/// True if the name of a store is a URL; otherwise it is a folder.
bool is_url(std::string_view store);

/// Reads a whole number of `least` to `most`. Throws UsageError that names the URL and ends with `form`.
int number_in_url(std::string_view url, std::string_view what, std::string_view text, int least, int most,
                  std::string_view form);

/// A host, without the brackets of an IPv6 address, and the text behind its ':', if there is one.
struct HostAndPort {
    std::string host;
    std::optional<std::string> port;

    /// Reads `text`, a part of `url`; throws UsageError, which ends with `form`.
    static HostAndPort parse(std::string_view url, std::string_view text, std::string_view form);
};

/// The host as a URL writes it: an IPv6 address in brackets.
std::string host_in_url(const std::string& host);

}  // namespace rankmesh::detail
