// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rankmesh::detail {

class PeerMonitor;

/// Installs a terminate handler that prints what this process was waiting for: Gloo throws on a thread of its
/// own when something in it is wrong, which ends the process before anybody can catch it.
void install_terminate_handler();

/// The monitors whose waits are printed; each is removed before it is destroyed.
void add_to_terminate_report(const PeerMonitor& monitor);
void remove_from_terminate_report(const PeerMonitor& monitor) noexcept;

}  // namespace rankmesh::detail
