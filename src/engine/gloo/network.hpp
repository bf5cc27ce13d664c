// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <string>

namespace rankmesh::detail {

/// The address that peers are told: that of `interface`, or of loopback where all ranks share this host, or
/// of the first interface that is up and leads to others; throws Misuse if there is none.
std::string own_address(const std::string& interface, bool one_host);

/// Gloo's sockets of this process on one address: one thread that reads and writes for all its channels.
std::shared_ptr<::gloo::transport::Device> device_on(const std::string& address);

}  // namespace rankmesh::detail
