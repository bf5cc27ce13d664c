// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <rankmesh/engine/buffers.hpp>

#include "engine/channel.hpp"
#include "engine/staged.hpp"

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
    void give_back(const CommunicatorState& state);
    Call single(std::size_t piece) const;
    std::size_t part_bytes(std::size_t piece) const;
    std::size_t staging_bytes(const Bucket& bucket) const;
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

}  // namespace rankmesh::detail
