// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// The memory that the calls of one rank use until they are complete, on all its communicators.
class PendingBuffers {
public:
    /// The buffers of calls that a rank of a group makes as one, during its lifetime.
    class Use {
    public:
        /// Throws UsageError if the calls write what others read or write, or read what others write. `label`
        /// outlives it.
        Use(std::shared_ptr<PendingBuffers> buffers, std::span<const Call> calls, int group_rank,
            const Label& label)
            : buffers_(std::move(buffers)), number_(buffers_->add(calls, group_rank, label)) {}
        Use(Use&&) noexcept = default;
        Use& operator=(Use&&) = delete;
        ~Use() {
            if (buffers_) buffers_->remove(number_);
        }

    private:
        std::shared_ptr<PendingBuffers> buffers_;  // null: moved from
        std::uint64_t number_;
    };

private:
    std::uint64_t add(std::span<const Call> calls, int group_rank, const Label& label);
    void remove(std::uint64_t number) noexcept {
        const auto lock = std::lock_guard(mutex_);
        entries_.erase(number);
    }

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
