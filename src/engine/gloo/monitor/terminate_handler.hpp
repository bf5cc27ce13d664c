// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rankmesh::detail {

class PeerMonitor;

/// Gloo throws on a thread of its own when members give different lengths, which ends the process before
/// anybody can catch it. From the first call on it is said first, on stderr, what this process was waiting
/// for.
void install_terminate_handler();

/// Whose waiting is told; each is removed before it ends.
void add_to_terminate_report(const PeerMonitor& monitor);
void remove_from_terminate_report(const PeerMonitor& monitor) noexcept;

}  // namespace rankmesh::detail
