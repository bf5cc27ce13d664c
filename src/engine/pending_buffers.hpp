// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// The memory that the calls of one rank use until they are complete, on all its communicators.
class PendingBuffers {
public:
    /// Adds calls that a rank of a group makes as one, and returns their number for `remove`. Throws
    /// UsageError, and adds nothing, if they write what others read or write, or read what others write.
    /// `label` outlives them.
    std::uint64_t add(std::span<const Call> calls, int group_rank, const Label& label);
    void remove(std::uint64_t number) noexcept;

private:
    struct Range {
        const char* begin;
        std::size_t bytes;
        bool written;
        bool overlaps(const Range& other) const;
    };
    /// One call, and at most two ranges that it uses.
    struct Entry {
        Call call;
        const Label* label;
        std::vector<Range> ranges;
    };
    static std::vector<Range> ranges_of(const Call& call, int group_rank, int size);
    void check(const Entry& entry) const;

    std::mutex mutex_;
    std::map<std::uint64_t, std::vector<Entry>> entries_;
    std::uint64_t next_ = 0;
};

}  // namespace rankmesh::detail
