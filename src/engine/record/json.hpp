// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/record/recorder.hpp"

namespace rankmesh::detail {

/// What a flight record is written from.
struct RecordContent {
    const Recorder::Owner& owner;
    const RecordReason& why;
    std::vector<std::shared_ptr<CallRing>> rings;
    std::string mesh = {};  // that the program declared; "": none
    std::vector<int> placed = {};
};

/// The flight record as JSON, in the schema of docs/flight-record.md.
std::string record_json(const RecordContent& content);

}  // namespace rankmesh::detail
