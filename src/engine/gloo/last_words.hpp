// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rankmesh::detail {

class Lookout;

/// Gloo throws on a thread of its own when members give different lengths, which ends the process before
/// anybody can catch it. From the first call on it is said first, on stderr, what this process was waiting
/// for.
void install_last_words();

/// Whose waiting is told; each is removed before it ends.
void add_last_words(const Lookout& lookout);
void remove_last_words(const Lookout& lookout) noexcept;

}  // namespace rankmesh::detail
