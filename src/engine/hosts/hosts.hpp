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

/// The hosts of a world's ranks, and the addresses by which the ranks reach each other.
///
/// Each rank shares one line of text. From the lines of all ranks every rank decides the same.
class Hosts {
public:
    /// `interface` is the interface that was asked for, "" if none was.
    Hosts(int rank, std::string host, std::string interface);

    /// The HostLine that this process sends to the others.
    const std::string& line() const { return line_; }

    /// The ranks on a host of the same name, in order. `lines` are the lines of all ranks.
    std::vector<int> local_ranks(const std::string& lines) const;

    /// The address at which this rank listens: a loopback address only if all ranks share a network.
    /// Throws UsageError on every rank if one of them has no address, or if they have no family in common.
    std::string address(const std::string& lines) const;

private:
    const std::string host_;
    const std::string wanted_;
    const std::vector<Interface> meant_;
    std::string line_;
};

}  // namespace rankmesh::detail
