// SPDX-License-Identifier: Apache-2.0
#include "engine/pending_buffers.hpp"

#include <functional>

#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace {

bool writes(const Call& call, int group_rank, int size) {
    if (call.operation == Operation::shift) return peers_of(call, group_rank, size).from >= 0;
    return writes(call, group_rank);
}

}  // namespace

bool PendingBuffers::Range::overlaps(const Range& other) const {
    const auto before = std::less<const char*>();
    return before(begin, other.begin + other.bytes) && before(other.begin, begin + bytes);
}

std::vector<PendingBuffers::Range> PendingBuffers::ranges_of(const Call& call, int group_rank, int size) {
    auto ranges = std::vector<Range>{};
    if (writes(call, group_rank, size) && call.out_bytes() > 0)
        ranges.push_back({static_cast<const char*>(call.out), call.out_bytes(), true});
    if (reads(call, group_rank) && call.in_bytes() > 0)
        ranges.push_back({static_cast<const char*>(call.in), call.in_bytes(), false});
    return ranges;
}

void PendingBuffers::check(const Entry& entry) const {
    for (const auto& [number, others] : entries_)
        for (const auto& other : others)
            for (const auto& range : entry.ranges)
                for (const auto& used : other.ranges)
                    if ((range.written || used.written) && range.overlaps(used))
                        throw UsageError(cat(to_string(entry.call), " on ", entry.label->text(),
                                             range.written ? " would write" : " would read",
                                             " memory that a pending ", to_string(other.call), " on ",
                                             other.label->text(), used.written ? " writes" : " reads",
                                             "; wait for that first, or use another buffer"));
}

std::uint64_t PendingBuffers::add(std::span<const Call> calls, int group_rank, const Label& label) {
    auto entries = std::vector<Entry>{};
    const auto lock = std::lock_guard(mutex_);
    for (const auto& call : calls) {
        entries.push_back({call, &label, ranges_of(call, group_rank, label.ranks.size())});
        check(entries.back());
    }
    entries_.emplace(next_, std::move(entries));
    return next_++;
}

}  // namespace rankmesh::detail
