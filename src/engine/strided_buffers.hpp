// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "engine/channel.hpp"
#include "engine/memory_layout.hpp"
#include "engine/staged.hpp"

namespace rankmesh::detail {

/// Throws UsageError unless the strided buffers of a call can be used, and have the lengths that the
/// operation requires.
void check_strided(const StridedCall& call, const CommunicatorState& state);

/// The strided buffers of calls that are made as one. Engines get copies in staging memory, which is the
/// channel's up to `most_kept` bytes, and otherwise allocated for the calls.
class StridedBuffers final : public Staged {
public:
    static constexpr auto most_kept = std::size_t{50} << 20;

    explicit StridedBuffers(std::size_t calls) { pieces_.reserve(calls + 1); }
    /// Adds the buffers of a call that the engine gets as `call`, which must stay where it is until `pack`.
    void add(const StridedCall& given, Call& call, const CommunicatorState& state);
    /// Points the calls to staging memory, and copies what they read there; called inside a use.
    void pack(const CommunicatorState& state);
    void unpack(const CommunicatorState& state) override;

private:
    /// A buffer, or both of a call in place.
    struct Piece {
        Call* call;
        MemoryLayout layout;
        const void* in;  // null: not read, or contiguous
        void* out;       // null: not written, or contiguous
        std::size_t at;  // where it lies in staging memory
        bool is_in;      // the call reads it; also where this rank does not
        bool is_out;
        bool own_part;
    };
    void add(const Piece& piece, std::size_t bytes);

    std::vector<Piece> pieces_;
    std::size_t bytes_ = 0;
    Staging staging_;
};

[[noreturn]] void throw_no_multiple(const Call& call, const CommunicatorState& state);
/// Makes the shorter buffer of a call in place this rank's part of the longer one; throws UsageError where
/// the longer one has no equal parts.
inline void take_own_part(Call& call, const CommunicatorState& state) {
    const auto n = static_cast<std::size_t>(state.size);
    const auto r = static_cast<std::size_t>(state.rank);
    if (call.in_count / call.unit % n != 0) throw_no_multiple(call, state);
    if (traits(call.operation).out_parts) {
        call.in_count /= n;
        call.in = static_cast<const char*>(call.in) + r * call.in_bytes();
    } else {
        call.out_count /= n;
        call.out = static_cast<char*>(call.out) + r * call.out_bytes();
    }
}

}  // namespace rankmesh::detail
