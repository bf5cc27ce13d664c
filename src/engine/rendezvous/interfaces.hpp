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
    bool outward = false;  // other hosts can be told of it: neither loopback nor of one link only
};

/// Those that `wanted` means, all where it is "": the name of an interface, an address, or a subnet such as
/// `10.0.0.0/8`. The best to reach others come first: that towards MASTER_ADDR where that is an address, that
/// of the default route, those that have a link.
std::vector<Interface> interfaces(const std::string& wanted);

/// `lo 127.0.0.1, eth0 10.1.2.3`, or `none`.
std::string to_text(const std::vector<Interface>& interfaces);

}  // namespace rankmesh::detail
