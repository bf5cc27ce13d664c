// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group have called differently, and whom the error blames.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

/// What ranks have made as one call of a group: its text, and which of them, as world ranks; where there are
/// too many to list, `count` says how many.
struct DifferingCall {
    std::string text;
    std::vector<int> ranks;
    std::uint64_t count;
};
/// Adds a rank to those that have made the call of this text.
void add_call(std::vector<DifferingCall>& calls, const std::string& text, int rank);
/// The ranks that have called something else than most are blamed, or all of them where `of_two` must agree.
/// It is not known what the `silent` ranks called.
Failure differing_calls(std::uint64_t number, const Label& label, std::vector<DifferingCall> calls,
                        const std::vector<int>& silent = {}, bool of_two = false);

/// One end of a message: a world rank, its name in the text, `rank 1 [dp=1]`, and what it sends or receives.
struct MessageEnd {
    int rank;
    std::string name;
    std::string what;
};
/// The two ends of the `number`-th message from one rank to the other differ; both are blamed.
Failure differing_ends(std::uint64_t number, const Label& label, const MessageEnd& sender,
                       const MessageEnd& receiver);

}  // namespace rankmesh::detail
