// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <rankmesh/engine/buffers.hpp>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// A list of buffers as few calls: small ones are copied together into buckets, one element type a bucket
/// where they are reduced, large ones and those of a device travel as they are.
class Packed {
public:
    /// Throws Misuse for a list that the operation can not take, before anything is copied or sent.
    Packed(const Call& like, const ConstBuffers& ins, const Buffers& outs, const ListOptions& options,
           const Line& line);

    const std::vector<Call>& calls() const { return calls_; }
    /// Copies the results out of the buckets, once all calls are complete.
    void unpack() const;

private:
    struct Copy {
        const char* from;
        void* to;
        std::size_t bytes;
    };
    /// Buffers that are to travel together.
    struct Bucket {
        DType dtype;
        std::size_t bytes = 0;  // of all ins
        std::vector<std::size_t> pieces;
    };

    void check(const Call& like, const ConstBuffers& ins, const Buffers& outs, const Line& line) const;
    void add(const Call& like, const Bucket& bucket, const ConstBuffers& ins, const Buffers& outs,
             const Line& line);

    std::vector<Call> calls_;
    std::vector<std::unique_ptr<char[]>> staging_;
    std::vector<Copy> copies_;
};

}  // namespace rankmesh::detail
