// SPDX-License-Identifier: Apache-2.0
// What ends a process, asks it from outside, or comes again and again, and has its flight records written.
#pragma once

#include <chrono>

namespace rankmesh::detail {

/// Has std::terminate write the records before the handler that was installed until now.
void write_records_on_terminate();
/// Has a signal write the records, from now on until the process ends, on a thread of its own.
void write_records_on_signal(int signal);
/// Has the records written again and again, until the process ends. Later calls change nothing.
void write_records_every(std::chrono::seconds pause);

}  // namespace rankmesh::detail
