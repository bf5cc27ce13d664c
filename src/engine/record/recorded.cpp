// SPDX-License-Identifier: Apache-2.0
#include "engine/record/recorded.hpp"

#include <exception>

#include "engine/world_state.hpp"

namespace rankmesh::detail {

void record_failure(const CommunicatorState& state, const RecordPlaces& record, bool began) noexcept {
    try {
        throw;
    } catch (const UsageError&) {
        if (began)
            state.ring->retract(record.first);
        else
            recorded_end(state, record, CallState::scheduled);
    } catch (...) {
        recorded_end(state, record, CallState::failed);
        state.world->cause->set_by_exception();
        if (const auto& recorder = state.world->recorder())
            recorder->failed(std::current_exception(), state.world->roots().get());
    }
}

}  // namespace rankmesh::detail
