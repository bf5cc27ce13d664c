// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace rankmesh::detail {

/// Where rank 0 serves a store: `tcp://head:29511`, or `tcp://head:29511-29518` for the first free port of
/// these.
struct TcpUrl {
    std::string host;  // without the brackets of an IPv6 address
    int first_port = 0;
    int last_port = 0;

    /// Throws UsageError for anything else.
    static TcpUrl parse(std::string_view url);
    /// The store's ports beside torch's MASTER_PORT: eight from the eleventh port after it on; before it if
    /// there are none after it.
    static TcpUrl beside(const std::string& master_address, int master_port);
    /// The URL of one of the ports.
    std::string text(int port) const;
    std::string text() const;
    /// `29511`, or `29511-29518`.
    std::string ports() const;
    bool operator==(const TcpUrl&) const = default;
};

}  // namespace rankmesh::detail
