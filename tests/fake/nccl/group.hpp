// SPDX-License-Identifier: Apache-2.0
// Groups of calls, and how every call answers.
#pragma once

#include "fake/nccl/operation.hpp"

namespace fake_nccl {

/// Work on communicators themselves that waits for other ranks.
struct Job {
    std::vector<std::shared_ptr<Communicator>> communicators;  // those it is in progress on
    bool blocking;
    std::function<void()> work;  // throws Failure
    bool quiet = false;          // of those that do not block: the call answers ncclSuccess
};

/// Runs a call's body, in a group until its end nothing but checks, and makes its answer of what it throws.
ncclResult_t answer(const std::function<void()>& body);

void submit(Operation operation);
void submit(Job job);

void set_last_error(const std::string& what);
const std::string& last_error();

}  // namespace fake_nccl
