// SPDX-License-Identifier: Apache-2.0
#include "engine/packed.hpp"

#include <algorithm>
#include <cstring>

namespace rankmesh::detail {
namespace {

std::size_t bytes_of(const Piece<const void>& piece) { return piece.count * size_of(piece.dtype); }

/// The call for one buffer of the list, by itself.
Call single(Call call, const Piece<const void>& in, const Piece<void>& out) {
    call.dtype = in.dtype;
    call.in = in.data;
    call.out = out.data;
    call.in_count = in.count;
    call.out_count = out.count;
    call.in_space = in.space;
    call.out_space = out.space;
    return call;
}

}  // namespace

Packed::Packed(const Call& like, const ConstBuffers& ins, const Buffers& outs, const ListOptions& options,
               const Line& line) {
    check(like, ins, outs, line);
    auto open = std::vector<Bucket>{};  // at most one a type
    for (std::size_t i = 0; i < ins.size(); ++i) {
        const auto& in = ins.pieces()[i];
        const auto bytes = bytes_of(in);
        if (bytes >= options.bucket_bytes || in.space == Space::device) {
            calls_.push_back(single(like, in, outs.pieces()[i]));
            continue;
        }
        // What is only moved may share a bucket with any other type.
        const auto dtype = reduces(like.operation) ? in.dtype : DType::byte;
        auto bucket = std::ranges::find(open, dtype, &Bucket::dtype);
        if (bucket == open.end())
            bucket = open.insert(open.end(), {.dtype = dtype, .pieces = {}});
        else if (bucket->bytes + bytes > options.bucket_bytes) {
            add(like, *bucket, ins, outs, line);
            *bucket = {.dtype = dtype, .pieces = {}};
        }
        bucket->bytes += bytes;
        bucket->pieces.push_back(i);
    }
    for (const auto& bucket : open) add(like, bucket, ins, outs, line);
}

void Packed::check(const Call& like, const ConstBuffers& ins, const Buffers& outs, const Line& line) const {
    if (ins.size() != outs.size())
        throw Misuse(cat("a list ", to_string(like.operation), " on ", line.label->text(), " was given ",
                         ins.size(), " buffers in and ", outs.size(), " out; both must be equal"));
    for (std::size_t i = 0; i < ins.size(); ++i) {
        const auto& in = ins.pieces()[i];
        const auto& out = outs.pieces()[i];
        try {
            if (reduces(like.operation) && !reduces(like.reduction, in.dtype))
                throw Misuse(
                    cat(to_string(like.reduction), " makes no sense on ", to_string(in.dtype), " elements"));
            if (in.dtype != out.dtype)
                throw Misuse(cat("it holds ", to_string(in.dtype), " in and ", to_string(out.dtype), " out"));
            detail::check(single(like, in, out), line);
        } catch (const Misuse& misuse) {
            throw Misuse(cat("buffer ", i, " of a list: ", misuse.what()));
        }
    }
}

void Packed::add(const Call& like, const Bucket& bucket, const ConstBuffers& ins, const Buffers& outs,
                 const Line& line) {
    if (bucket.pieces.size() == 1) {
        const auto i = bucket.pieces.front();
        calls_.push_back(single(like, ins.pieces()[i], outs.pieces()[i]));
        return;
    }
    const auto parts = like.operation == Operation::all_gather ? static_cast<std::size_t>(line.size) : 1;
    auto& in = staging_.emplace_back(std::make_unique_for_overwrite<char[]>(bucket.bytes));
    auto* packed = in.get();
    auto* out = packed;
    if (parts > 1)
        out = staging_.emplace_back(std::make_unique_for_overwrite<char[]>(bucket.bytes * parts)).get();
    const auto receives_only = like.operation == Operation::broadcast && like.argument != line.rank;
    const auto sends_only = like.operation == Operation::broadcast && !receives_only;
    auto offset = std::size_t{0};
    for (auto i : bucket.pieces) {
        const auto& piece = ins.pieces()[i];
        const auto bytes = bytes_of(piece);
        if (!receives_only && bytes > 0) std::memcpy(packed + offset, piece.data, bytes);
        for (std::size_t part = 0; part < parts && !sends_only && bytes > 0; ++part)
            copies_.push_back({out + part * bucket.bytes + offset,
                               static_cast<char*>(outs.pieces()[i].data) + part * bytes, bytes});
        offset += bytes;
    }
    const auto count = bucket.bytes / size_of(bucket.dtype);
    calls_.push_back(single(like, {packed, count, bucket.dtype, Space::host},
                            {out, count * parts, bucket.dtype, Space::host}));
}

void Packed::unpack() const {
    for (const auto& copy : copies_) std::memcpy(copy.to, copy.from, copy.bytes);
}

}  // namespace rankmesh::detail
