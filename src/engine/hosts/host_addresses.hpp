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

/// The numeric addresses of a store's host. Throws HostNotFound, or Timeout if the system has not found them
/// until then.
std::vector<std::string> host_addresses(const std::string& host, std::chrono::steady_clock::time_point until);

/// True if a numeric address is one of this machine's.
bool is_own_address(const std::string& address);

}  // namespace rankmesh::detail
