// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace rankmesh::detail {

struct HostNotFound : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The addresses of a store's host, in numbers. Throws HostNotFound, or Timeout where the system has not
/// found them until then.
std::vector<std::string> host_addresses(const std::string& host, std::chrono::steady_clock::time_point until);

/// True if an address in numbers is one of this machine's.
bool is_own_address(const std::string& address);

}  // namespace rankmesh::detail
