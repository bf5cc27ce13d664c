// SPDX-License-Identifier: Apache-2.0
// How communicators record their calls.
#pragma once

#include <rankmesh/engine/pending.hpp>

#include "engine/record/call_ring.hpp"

namespace rankmesh::detail {

/// Records that calls have failed with the exception that is being handled; a UsageError takes back calls
/// that have begun with it, and leaves those that were only to be waited for. Away from the code of every
/// call.
void record_failure(const CommunicatorState& state, const RecordPlaces& record, bool began) noexcept;

inline void recorded_end(const CommunicatorState& state, const RecordPlaces& record, CallState end) noexcept {
    for (std::uint32_t i = 0; i < record.count; ++i) state.ring->set(record.first + i, end);
}

/// Runs a blocking call.
template <class Body>
void recorded(const CommunicatorState& state, const Call& call, Body&& body) {
    if (!state.ring) return body();
    const auto place = state.ring->begin(call, state.label_number, state.timeout, true);
    try {
        body();
    } catch (...) {
        record_failure(state, {place, 1}, true);
        throw;
    }
    state.ring->set(place, CallState::completed);
}

/// Runs a recv or a probe that may be from any rank; `body` returns the sender.
template <class Body>
void recorded_message(const CommunicatorState& state, const Call& call, Body&& body) {
    if (!state.ring) return static_cast<void>(body());
    const auto place = state.ring->begin(call, state.label_number, state.timeout, true);
    try {
        state.ring->set_peer(place, call, body());
    } catch (...) {
        record_failure(state, {place, 1}, true);
        throw;
    }
    state.ring->set(place, CallState::completed);
}

/// Starts calls, or enqueues one on a device.
template <class Body>
RecordPlaces recorded_start(const CommunicatorState& state, std::span<const Call> calls, Body&& body) {
    if (!state.ring) return body(), RecordPlaces{};
    auto record = RecordPlaces{};
    for (const auto& call : calls) {
        const auto place = state.ring->begin(call, state.label_number, state.timeout, false);
        if (record.count++ == 0) record.first = place;
    }
    try {
        body();
    } catch (...) {
        record_failure(state, record, true);
        throw;
    }
    return record;
}

/// Waits for started calls.
template <class Body>
void recorded_wait(const CommunicatorState& state, const RecordPlaces& record, Body&& body) {
    if (record.count == 0) return body();
    recorded_end(state, record, CallState::started);
    try {
        body();
    } catch (...) {
        record_failure(state, record, false);
        throw;
    }
    if (state.space == Space::device) state.ring->complete_before(record.first);
    recorded_end(state, record, CallState::completed);
}

}  // namespace rankmesh::detail
