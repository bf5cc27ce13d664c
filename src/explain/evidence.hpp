// SPDX-License-Identifier: Apache-2.0
// The records of a job, by communicator and by rank.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rankmesh/explain/record.hpp>

#include "explain/agreement.hpp"
#include "explain/words.hpp"

namespace rankmesh::detail::explaining {

/// One rank of a communicator. Its collectives are entries of the rank's record, by rising number.
struct Member {
    int rank = 0;
    const FlightRecord* record = nullptr;  ///< null: there is none
    std::vector<const RecordedEntry*> collectives;
    std::vector<const RecordedEntry*> messages;
    std::int64_t last = 0;  ///< the number of its last collective, 0: none
    std::int64_t completed = 0;

    /// The entry of a number; several may have it, of which this is the first. Null: none.
    const RecordedEntry* find(std::int64_t number) const;
    /// True if its record has all its collectives and messages on this communicator.
    bool is_whole() const;
};

struct Communicator {
    std::shared_ptr<const RecordedGroup> group;
    std::string label;  ///< `'tp' of mesh dp=2 tp=2`
    std::string axes;
    std::string kind;  ///< the same for all groups along the same axes; empty: not known
    std::vector<int>
        ranks;  ///< in the communicator's order; where no record has it, those that say they are in it
    std::vector<Member> members;   ///< by rising rank
    std::int64_t made_by_all = 0;  ///< the collectives that all members with a record have made
    bool lacks_members = false;    ///< some of the ranks without a record are in it, which no record says

    const Member* find(int rank) const;
    /// `'tp' of mesh dp=2 tp=2 {0, 1}`.
    std::string text() const;
};

/// Where a rank was when its record was written.
struct Whereabouts {
    const RecordedEntry* entry = nullptr;  ///< the call that it was in; null: outside any
    const RecordedEntry* last = nullptr;   ///< the last call that it completed
    const RecordedEntry* late = nullptr;   ///< the first to which it came when others had given up
};

class Evidence {
public:
    Evidence(std::span<const FlightRecord> records, std::span<const UnreadFile> unread, Places places);
    Evidence(const Evidence&) = delete;
    Evidence& operator=(const Evidence&) = delete;

    const Places& places() const { return places_; }
    const std::vector<Communicator>& communicators() const { return communicators_; }
    const Communicator& communicator_of(const RecordedEntry& entry) const;
    int number_of(const RecordedEntry& entry) const { return numbers_.at(entry.group.get()); }
    /// Null where there is none.
    const FlightRecord* record(int rank) const;
    const std::map<int, const FlightRecord*>& records() const { return by_rank_; }
    /// All ranks that have a record or are in a group, ascending.
    const std::vector<int>& ranks() const { return ranks_; }
    /// The ranks of the world, as far as records say it.
    int world() const { return world_; }
    /// True if a record or a mesh says how many they are.
    bool knows_world() const { return knows_world_; }
    /// The ranks of the world that have no record, ascending.
    std::vector<int> absent() const;
    /// The number of a rank in `ranks()`.
    int place(int rank) const;
    /// The files that hold no record, and those whose record cannot be that of its rank.
    const std::vector<UnreadFile>& unread() const { return unread_; }
    const UnreadFile* unread(int rank) const;
    const std::vector<std::string>& notes() const { return notes_; }

    /// True if a rank left because others did not come, or were lost: it is not the first.
    bool left_by_consequence(int rank) const;
    const Whereabouts& whereabouts(int rank) const { return whereabouts_.at(rank); }
    /// What the errors of other ranks say of a rank that did not come, such as `does not answer: it is
    /// stopped, cut off or gone`, and whose error; an empty text: nothing.
    std::pair<std::string, int> reported(int rank) const;
    /// What members must agree on, as a number that is the same for calls that agree.
    int agreement(const RecordedEntry& entry) const { return agreements_.at(entry.call.get()); }
    const Agreement& agreement(int number) const {
        return known_agreements_[static_cast<std::size_t>(number)];
    }

    /// True where a rank's device runs calls of several communicators in order, as NCCL's.
    static bool is_device(const RecordedEntry& entry);
    /// True if a record has no entry of the call, and a status says that the call is not over.
    static bool is_unrecorded(const RecordedEntry& entry);
    /// True if a rank wrote its record because something was wrong there.
    static bool says_wrong(const FlightRecord& record) {
        return !record.reason.empty() && record.reason != "request" && record.reason != "signal";
    }
    static bool is_over(const RecordedEntry& entry) { return entry.state == RecordedState::completed; }
    /// True where a record can miss the end of a call: PyTorch's Gloo notes it a moment after the call
    /// returned.
    static bool notes_ends_late(const FlightRecord& record, const RecordedEntry& entry) {
        return record.is_torch && entry.call->backend == "gloo";
    }

    /// `all_reduce of 4 f32 by sum, call 3 on 'tp' of mesh dp=2 tp=2 {0, 1}`.
    std::string text(const RecordedEntry& entry) const;

private:
    void add(const FlightRecord& record);
    int add(const std::shared_ptr<const RecordedGroup>& group);
    void name(Communicator& communicator, const std::string& axes, bool is_torch);
    void add_members_of_world();
    void find_lacking();
    void tell_kinds_apart();
    Whereabouts find_whereabouts(const FlightRecord& record);
    const RecordedEntry* find_failed(const FlightRecord& record) const;
    bool is_late(const FlightRecord& record, const RecordedEntry& entry) const;

    Places places_;
    std::map<int, const FlightRecord*> by_rank_;
    std::set<int> missed_;  // those that others missed when their timeouts expired
    std::vector<int> ranks_;
    int world_ = 0;
    bool knows_world_ = false;
    std::vector<Communicator> communicators_;
    std::unordered_map<const RecordedGroup*, int> numbers_;
    std::map<std::pair<std::string, std::vector<int>>, int> by_name_;
    std::unordered_map<const RecordedOperation*, int> agreements_;
    std::map<Agreement, int> agreement_numbers_;
    std::vector<Agreement> known_agreements_;
    std::map<int, Whereabouts> whereabouts_;
    std::deque<RecordedEntry> unrecorded_;  // calls of which records say only that they are not over
    std::vector<UnreadFile> unread_;
    std::map<int, const UnreadFile*> unread_of_;
    std::vector<std::string> notes_;
};

}  // namespace rankmesh::detail::explaining
