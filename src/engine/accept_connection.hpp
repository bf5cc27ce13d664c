// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rankmesh::detail {

/// Accepts a connection, which does not block; -1 with `errno` where there is none. A shortage is one that
/// keeps somebody out: where nobody has called, EAGAIN stands for it.
int accept_connection(int listening);

}  // namespace rankmesh::detail
