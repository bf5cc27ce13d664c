// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace rankmesh::detail {

/// An address of this host, on an interface that is up.
struct Interface {
    std::string name;
    std::string address;
    int family = 0;
    bool loopback = false;
    bool outward = false;  // other hosts can reach it: neither loopback nor link-local
};

/// True if `wanted` selects it: the name of an interface, an address, or a subnet such as `10.0.0.0/8`. "" is
/// all interfaces.
bool is_selected(const Interface& interface, const std::string& wanted);

/// The addresses of this host that `wanted` selects, the best first: the address towards MASTER_ADDR, if that
/// is an address; the address of the default route; addresses of interfaces with a link.
std::vector<Interface> interfaces(const std::string& wanted);

/// `lo 127.0.0.1, eth0 10.1.2.3`, or `none`.
std::string to_text(const std::vector<Interface>& interfaces);

}  // namespace rankmesh::detail
