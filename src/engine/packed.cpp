// SPDX-License-Identifier: Apache-2.0
#include "engine/packed.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "engine/access.hpp"
#include "engine/record/recorded.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace {

/// Copying more than this in and out again costs more than a call of its own.
constexpr auto worth_copying = std::size_t{64} << 10;

std::size_t bytes_of(const AnyBuffer<const void>& piece) { return piece.count * size_of(piece.dtype); }

}  // namespace

Packed::Packed(const Call& like, const ConstBuffers& ins, const Buffers& outs, const ListOptions& options,
               const CommunicatorState& state)
    : like_(like),
      most_kept_(2 * options.bucket_bytes),
      ins_(ListAccess::pieces(ins)),
      outs_(ListAccess::pieces(outs)) {
    if (traits(like.operation).in_parts) in_parts_ = static_cast<std::size_t>(state.size);
    if (traits(like.operation).out_parts) out_parts_ = static_cast<std::size_t>(state.size);
    sends_ = reads(like, state.rank);
    receives_ = writes(like, state.rank);
    check(state);
    check_overlap();
    if (ins_.size() > 1) like_.list = layout();
    fill(options);
}

void Packed::fill(const ListOptions& options) {
    auto open = std::vector<Bucket>{};  // at most one a type
    for (std::size_t i = 0; i < ins_.size(); ++i) {
        const auto& in = ins_[i];
        const auto bytes = part_bytes(i);
        const auto parts = std::max(in_parts_, out_parts_);
        // Buffers that are not reduced may share a bucket with any other type.
        const auto dtype = reduces(like_.operation) ? in.dtype : DType::byte;
        const auto larger = bytes * parts;
        if (larger > worth_copying || larger >= options.bucket_bytes || in.space == Space::device) {
            buckets_.push_back({dtype, bytes, {i}});
            continue;
        }
        auto bucket = std::ranges::find(open, dtype, &Bucket::dtype);
        if (bucket == open.end())
            bucket = open.insert(open.end(), {.dtype = dtype, .pieces = {}});
        else if ((bucket->bytes + bytes) * parts > options.bucket_bytes)
            buckets_.push_back(std::exchange(*bucket, {.dtype = dtype, .pieces = {}}));
        bucket->bytes += bytes;
        bucket->pieces.push_back(i);
    }
    std::ranges::move(open, std::back_inserter(buckets_));
}

/// What all ranks must have in common beside the sum of the lengths.
std::uint32_t Packed::layout() const {
    auto mixed = std::uint64_t{ins_.size()};
    for (const auto& in : ins_) {
        mixed = (mixed ^ (in.count / in_parts_ << 8 | static_cast<std::uint64_t>(in.dtype))) *
                0xbf58476d1ce4e5b9U;
        mixed ^= mixed >> 32;
    }
    return static_cast<std::uint32_t>(mixed) | 1;
}

/// `; the list of this rank: 2 f32, 3 f32`, of the first few.
std::string Packed::text() const {
    constexpr auto most = std::size_t{16};
    const auto told = joined(std::span(ins_).first(std::min(ins_.size(), most)), ", ", [](const auto& each) {
        return elements_text(each.count, each.dtype, each.unit);
    });
    return cat("; the list of this rank: ", told, ins_.size() > most ? ", ..." : "");
}

/// Throws UsageError if a byte would be written twice.
void Packed::check_overlap() const {
    auto order = std::vector<std::size_t>{};
    for (std::size_t i = 0; i < outs_.size(); ++i)
        if (outs_[i].count > 0) order.push_back(i);
    const auto begin = [&](std::size_t i) { return static_cast<const char*>(outs_[i].data); };
    std::ranges::sort(order, std::less<>{}, begin);
    for (std::size_t k = 1; k < order.size(); ++k) {
        const auto i = order[k - 1];
        const auto j = order[k];
        if (begin(j) < begin(i) + outs_[i].count * size_of(outs_[i].dtype))
            throw UsageError(cat("buffers ", std::min(i, j), " and ", std::max(i, j),
                                 " of a list overlap; name what they share once"));
    }
}

void Packed::check(const CommunicatorState& state) const {
    if (ins_.size() != outs_.size())
        throw UsageError(cat("a list ", to_string(like_.operation), " on ", state.label->text(),
                             " was given ", ins_.size(), " buffers in and ", outs_.size(),
                             " out; both must be equal"));
    for (std::size_t i = 0; i < ins_.size(); ++i) {
        const auto& in = ins_[i];
        try {
            if (reduces(like_.operation) && !in.known)
                throw UsageError(cat(to_string(like_.reduction), " makes no sense on struct elements"));
            if (reduces(like_.operation) && in.unit > 1 && !reduces_complex(like_.reduction))
                throw UsageError(cat(to_string(like_.reduction), " makes no sense on complex elements"));
            if (in.dtype != outs_[i].dtype)
                throw UsageError(
                    cat("it holds ", to_string(in.dtype), " in and ", to_string(outs_[i].dtype), " out"));
            detail::check(single(i), state);
        } catch (const UsageError& error) {
            throw UsageError(cat("buffer ", i, " of a list: ", error.what()));
        }
    }
}

/// The call for one buffer of the list, by itself.
Call Packed::single(std::size_t piece) const {
    const auto& in = ins_[piece];
    const auto& out = outs_[piece];
    auto call = like_;
    call.dtype = in.dtype;
    call.in = in.data;
    call.out = out.data;
    call.in_count = in.count;
    call.out_count = out.count;
    call.in_space = in.space;
    call.out_space = out.space;
    call.unit = in.unit;
    return call;
}

std::size_t Packed::part_bytes(std::size_t piece) const { return bytes_of(ins_[piece]) / in_parts_; }

Call Packed::pack(const Bucket& bucket, char* staging) const {
    if (bucket.pieces.size() == 1) return single(bucket.pieces.front());
    auto* to = staging;
    for (std::size_t part = 0; part < in_parts_; ++part)
        for (auto i : bucket.pieces) {
            const auto bytes = part_bytes(i);
            if (sends_ && bytes > 0)
                std::memcpy(to, static_cast<const char*>(ins_[i].data) + part * bytes, bytes);
            to += bytes;
        }
    auto call = like_;
    call.dtype = bucket.dtype;
    call.in = staging;
    call.out = in_parts_ == out_parts_ ? staging : to;
    const auto count = bucket.bytes / size_of(bucket.dtype);
    call.in_count = count * in_parts_;
    call.out_count = count * out_parts_;
    return call;
}

void Packed::unpack(const Bucket& bucket, const char* staging) const {
    if (bucket.pieces.size() == 1 || !receives_) return;
    const auto* from = in_parts_ == out_parts_ ? staging : staging + bucket.bytes * in_parts_;
    for (std::size_t part = 0; part < out_parts_; ++part)
        for (auto i : bucket.pieces) {
            const auto bytes = part_bytes(i);
            if (bytes > 0) std::memcpy(static_cast<char*>(outs_[i].data) + part * bytes, from, bytes);
            from += bytes;
        }
}

void Packed::run(const CommunicatorState& state) {
    auto most = std::size_t{0};
    for (const auto& bucket : buckets_) most = std::max(most, staging_bytes(bucket));
    staging_ = state.channel->staging(most);
    for (const auto& bucket : buckets_) {
        const auto call = pack(bucket, staging_.data.get());
        recorded(state, call, [&] { state.channel->run(call, *state.label, state.timeout); });
        unpack(bucket, staging_.data.get());
    }
    give_back(state);
}

std::vector<Call> Packed::pack(const CommunicatorState& state) {
    auto sum = std::size_t{0};
    for (const auto& bucket : buckets_) sum += staging_bytes(bucket);
    staging_ = state.channel->staging(sum);
    auto calls = std::vector<Call>{};
    auto* at = staging_.data.get();
    for (const auto& bucket : buckets_) {
        calls.push_back(pack(bucket, at));
        at += staging_bytes(bucket);
    }
    return calls;
}

void Packed::unpack(const CommunicatorState& state) {
    const auto* at = staging_.data.get();
    for (const auto& bucket : buckets_) {
        unpack(bucket, at);
        at += staging_bytes(bucket);
    }
    give_back(state);
}

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

}  // namespace rankmesh::detail
