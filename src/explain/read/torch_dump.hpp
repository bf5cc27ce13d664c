// SPDX-License-Identifier: Apache-2.0
// What the recorders of PyTorch's groups leave out of a dump, or count otherwise; docs/recorders.md has the
// table.
#pragma once

#include <string>

#include <rankmesh/explain/record.hpp>

#include "formats/json.hpp"

namespace rankmesh::of_record {

/// The recorder that wrote a dump.
struct Recorder {
    int major = 2;
    /// Torchcomms' hook: one counter for the calls of all communicators of the process, and no status.
    bool is_torchcomms = false;

    bool counts_messages_with_collectives() const { return major == 1 || is_torchcomms; }
};

/// Returns the recorder. Throws UsageError for a version that is not known.
Recorder recorder_of(const formats::Json& dump);

/// Returns the name of a group of version 1, whose `pg_id` counts the groups of one process. Groups of the
/// same ranks have the same order on all of them; without ranks, nothing tells two groups apart.
std::string name_of_group(const FlightRecord& record, std::int64_t id, const std::vector<int>& ranks);

/// Returns true if a retired call that is not completed was issued or is over. NCCL's own recorder retires a
/// call that is not completed only if it has failed.
bool retires_what_was_issued(const Recorder& recorder, const std::string& backend);

bool is_message(const std::string& operation);

/// Numbers the calls of each group from 1, collectives and messages separately. Throws UsageError if the
/// recorder counted them together and no longer has the first.
void number_calls(const Recorder& recorder, FlightRecord& record);

/// Gives the messages of a batch its progress, which only the entry at its end has, and removes that entry.
void end_batches(FlightRecord& record);

}  // namespace rankmesh::of_record
