// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/engine/buffers.hpp>

#include "engine/channel.hpp"
#include "engine/memory_layout.hpp"

namespace rankmesh::detail {

/// A list of buffers as few calls: small ones are copied together into buckets, one element type a bucket
/// where they are reduced, large ones and those of a device are passed as they are.
class Packed final : public Staged {
public:
    /// Throws UsageError for a list that is invalid for the operation, before anything is copied or sent.
    Packed(const Call& like, const ConstBuffers& ins, const Buffers& outs, const ListOptions& options,
           const CommunicatorState& state);

    bool empty() const { return buckets_.empty(); }
    /// Runs the calls one after the other, through memory for the largest bucket.
    void run(const CommunicatorState& state);
    /// Copies all in, for calls that are to be started as one.
    std::vector<Call> pack(const CommunicatorState& state);
    void unpack(const CommunicatorState& state) override;

private:
    /// Buffers that are sent in one call.
    struct Bucket {
        DType dtype;
        std::size_t bytes = 0;  // of one part of each
        std::vector<std::size_t> pieces;
    };

    void fill(const ListOptions& options);
    void check(const CommunicatorState& state) const;
    void check_overlap() const;
    std::uint32_t layout() const;
    std::string text() const override;
    /// The memory of a blocking list's buckets is kept for the next list.
    void give_back(const CommunicatorState& state) {
        if (staging_.bytes <= most_kept_) state.channel->keep(std::move(staging_));
    }
    Call single(std::size_t piece) const;
    std::size_t part_bytes(std::size_t piece) const;
    /// Where the lengths differ, the outputs follow the inputs. The next bucket is aligned for any type.
    std::size_t staging_bytes(const Bucket& bucket) const {
        if (bucket.pieces.size() == 1) return 0;
        constexpr auto alignment = alignof(std::max_align_t);
        const auto bytes = in_parts_ == out_parts_ ? bucket.bytes : bucket.bytes * (in_parts_ + out_parts_);
        return (bytes + alignment - 1) / alignment * alignment;
    }
    Call pack(const Bucket& bucket, char* staging) const;
    void unpack(const Bucket& bucket, const char* staging) const;

    Call like_;
    std::size_t most_kept_;
    std::vector<AnyBuffer<const void>> ins_;
    std::vector<AnyBuffer<void>> outs_;
    std::size_t in_parts_ = 1;   // of a buffer's length: the group's size where its parts are scattered
    std::size_t out_parts_ = 1;  // the same where they are gathered
    bool sends_;
    bool receives_;
    std::vector<Bucket> buckets_;
    Staging staging_;
};

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
    void unpack(const CommunicatorState& state) override {
        for (const auto& piece : pieces_)
            if (piece.out)
                detail::unpack(piece.layout, staging_.data.get() + piece.at, static_cast<char*>(piece.out));
        if (staging_.bytes <= most_kept) state.channel->keep(std::move(staging_));
    }

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
    void add(const Piece& piece, std::size_t bytes) {
        constexpr auto alignment = alignof(std::max_align_t);
        pieces_.push_back(piece);
        pieces_.back().at = bytes_;
        bytes_ += (bytes + alignment - 1) / alignment * alignment;
    }

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
