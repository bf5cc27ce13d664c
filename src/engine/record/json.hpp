// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/record/recorder.hpp"

namespace rankmesh::detail {

/// What a flight record is written from.
struct RecordContent {
    const Recorder::Owner& owner;
    const RecordReason& why;
    std::vector<std::shared_ptr<CallRing>> rings;
};

/// The flight record as JSON, in the schema of docs/flight-record.md.
std::string record_json(const RecordContent& content);

/// The text as a JSON string, with its quotes; a byte that is no UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

}  // namespace rankmesh::detail
