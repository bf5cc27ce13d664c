// SPDX-License-Identifier: Apache-2.0
// What the URLs of stores have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rankmesh::detail {

/// True if the name of a store is a URL; otherwise it is a folder.
bool is_url(std::string_view store);

/// `text` as a whole number of `least` to `most`; throws UsageError, which names the URL and ends with
/// `form`.
int number_in_url(std::string_view url, std::string_view what, std::string_view text, int least, int most,
                  std::string_view form);

/// A host, without the brackets of an IPv6 address, and what follows its ':', nothing where there is none.
struct HostAndPort {
    std::string host;
    std::optional<std::string> port;

    /// Reads `text`, a part of `url`; throws UsageError, which ends with `form`.
    static HostAndPort parse(std::string_view url, std::string_view text, std::string_view form);
};

/// The host as a URL has it: an IPv6 address in brackets.
std::string host_in_url(const std::string& host);

}  // namespace rankmesh::detail
