// SPDX-License-Identifier: Apache-2.0
// What ends a process, or asks it from outside, and has its flight records written.
#pragma once

namespace rankmesh::detail {

/// Has std::terminate write the records before the handler that was installed until now.
void write_records_on_terminate();
/// Has a signal write the records, from now on until the process ends, on a thread of its own.
void write_records_on_signal(int signal);

}  // namespace rankmesh::detail
