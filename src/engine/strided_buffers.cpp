// SPDX-License-Identifier: Apache-2.0
#include "engine/strided_buffers.hpp"

#include <utility>

#include "engine/refuse_call.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace of_strided_buffers {

bool is_in_place(const StridedCall& call) {
    return call.in == call.out && call.in_layout == call.out_layout &&
           (call.own_part || traits(call.operation).in_place == InPlace::same);
}

void check_overlap(const StridedCall& call, const CommunicatorState& state) {
    const auto& operation = traits(call.operation);
    if (operation.has_out() && overlaps_itself(call.out_layout))
        refuse_call(
            call, state,
            " was given a strided output in which elements overlap; give each element an address of its own");
    if (!operation.has_in() || !operation.has_out() || is_in_place(call)) return;
    if (!overlap({call.in, call.in_bytes(), call.in_layout}, {call.out, call.out_bytes(), call.out_layout}))
        return;
    refuse_call(call, state, " was given strided buffers that overlap; use two that share no element",
                operation.in_place == InPlace::no ? "" : ", or pass one, to use it in place");
}

}  // namespace of_strided_buffers

void check_strided(const StridedCall& call, const CommunicatorState& state) {
    if (state.space == Space::device)
        refuse_call(call, state,
                    " was given a strided buffer, which only host engines copy; make it contiguous on the "
                    "device first");
    auto lengths = Call(call);
    if (call.own_part) take_own_part(lengths, state);
    check_lengths(lengths, state);
    of_strided_buffers::check_overlap(call, state);
}

void throw_no_multiple(const Call& call, const CommunicatorState& state) {
    refuse_call(call, state, " in place was given ", call.in_count / call.unit,
                " elements; it takes a multiple of ", state.size);
}

void StridedBuffers::add(const Piece& piece, std::size_t bytes) {
    constexpr auto alignment = alignof(std::max_align_t);
    pieces_.push_back(piece);
    pieces_.back().at = bytes_;
    bytes_ += (bytes + alignment - 1) / alignment * alignment;
}

void StridedBuffers::add(const StridedCall& given, Call& call, const CommunicatorState& state) {
    call = given;
    const auto& operation = traits(given.operation);
    const auto from =
        operation.argument == Argument::distance ? peers_of(given, state.rank, state.size).from : 0;
    const auto* read = reads(given, state.rank) ? given.in : nullptr;
    auto* written = writes(given, state.rank) && from >= 0 ? given.out : nullptr;
    const auto in_is_strided = operation.has_in() && !given.in_layout.is_contiguous();
    const auto out_is_strided = operation.has_out() && !given.out_layout.is_contiguous();
    if (in_is_strided && out_is_strided && of_strided_buffers::is_in_place(given))
        return add({&call, given.in_layout, read, written, 0, true, true, given.own_part}, given.in_bytes());
    if (in_is_strided) add({&call, given.in_layout, read, nullptr, 0, true, false, false}, given.in_bytes());
    if (out_is_strided)
        add({&call, given.out_layout, nullptr, written, 0, false, true, false}, given.out_bytes());
}

void StridedBuffers::pack(const CommunicatorState& state) {
    staging_ = state.channel->staging(bytes_);
    for (const auto& piece : pieces_) {
        auto* at = staging_.data.get() + piece.at;
        if (piece.is_in) piece.call->in = at;
        if (piece.is_out) piece.call->out = at;
        if (piece.own_part) take_own_part(*piece.call, state);
        if (piece.in) detail::pack(piece.layout, static_cast<const char*>(piece.in), at);
    }
}

void StridedBuffers::unpack(const CommunicatorState& state) {
    for (const auto& piece : pieces_)
        if (piece.out)
            detail::unpack(piece.layout, staging_.data.get() + piece.at, static_cast<char*>(piece.out));
    if (staging_.bytes <= most_kept) state.channel->keep(std::move(staging_));
}

}  // namespace rankmesh::detail
