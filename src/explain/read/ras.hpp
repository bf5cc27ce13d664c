// SPDX-License-Identifier: Apache-2.0
// Reports of NCCL's RAS (reliability, availability, serviceability), version 2.24 and later.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/explain/record.hpp>

#include "formats/json.hpp"

namespace rankmesh::of_ras {

/// Reads the JSON of `ncclras -f json`, which NCCL writes since 2.28. Returns what the report says of the
/// ranks of the largest communicator, and adds to `lines` what it says of others. Throws UsageError for what
/// is not such a report.
std::vector<FlightRecord> read_report(const formats::Json& json, const std::string& file,
                                      std::vector<LoggedLine>& lines);

/// Asks RAS at `HOST` or `HOST:PORT` for its report: JSON, or text before NCCL 2.28. Throws UsageError if
/// nothing answers.
std::string ask(const std::string& address, int timeout_ms = 30'000);

}  // namespace rankmesh::of_ras
