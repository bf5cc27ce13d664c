// SPDX-License-Identifier: Apache-2.0
// The records of a job, by communicator and by rank.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
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

/// One rank of a communicator. Its collectives are entries of the rank's record, by ascending number.
struct Member {
    int rank = 0;
    const FlightRecord* record = nullptr;  ///< null: no record
    std::vector<const RecordedEntry*> collectives;
    std::vector<const RecordedEntry*> messages;
    std::int64_t last = 0;  ///< the number of its last collective; 0: none
    std::int64_t completed = 0;

    /// Returns the first entry with a number; null: none.
    const RecordedEntry* find(std::int64_t number) const;
    /// Returns true if the record has all its collectives and messages on this communicator.
    bool is_whole() const;
};

struct Communicator {
    std::shared_ptr<const RecordedGroup> group;
    std::string label;  ///< `'tp' of mesh dp=2 tp=2`
    std::string axes;
    std::string kind;        ///< equal for all groups along the same axes; empty: not known
    std::vector<int> ranks;  ///< in the communicator's order; if not recorded, the ranks with calls on it
    std::vector<Member> members;   ///< by ascending rank
    std::int64_t made_by_all = 0;  ///< collectives that all members with a record have made
    bool is_inferred = false;      ///< the records do not list the ranks
    std::vector<int> likely;  ///< of inferred ranks: those that have made no call, though the others wait
    std::string text;         ///< `'tp' of mesh dp=2 tp=2 {0, 1}`, or `... {0, 1} (inferred)`

    const Member* find(int rank) const;
};

/// Where a rank was when its record was written.
struct Whereabouts {
    const RecordedEntry* entry = nullptr;  ///< the call that the rank was in; null: none
    const RecordedEntry* last = nullptr;   ///< the last completed call
    const RecordedEntry* late = nullptr;   ///< the first call that it entered after others had timed out
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
    /// Returns the record of a rank; null: none.
    const FlightRecord* record(int rank) const;
    const std::map<int, const FlightRecord*>& records() const { return by_rank_; }
    /// Returns all ranks that have a record or are in a group, ascending.
    const std::vector<int>& ranks() const { return ranks_; }
    /// Returns the number of ranks of the world, as far as the records know it.
    int world() const { return world_; }
    /// Returns true if a record or a mesh contains the number of ranks.
    bool knows_world() const { return knows_world_; }
    /// Returns the ranks of the world without a record, ascending.
    std::vector<int> absent() const;
    /// Returns the index of a rank in `ranks()`.
    int place(int rank) const;
    /// Returns the files without a record, and files whose record cannot belong to its rank.
    const std::vector<UnreadFile>& unread() const { return unread_; }
    const UnreadFile* unread(int rank) const;
    const std::vector<std::string>& notes() const { return notes_; }

    /// Returns true if a rank left because other ranks were missing or lost; it is not the cause.
    bool left_by_consequence(int rank) const;
    /// Returns true if a log says why a rank ended.
    bool is_told_ended(int rank) const;
    /// Returns true if a rank of a log gave up, and the log does not say after which calls.
    bool gave_up_somewhere(int rank) const;
    /// Returns true if all that is known comes from logs and reports.
    bool has_only_logs() const;
    const Whereabouts& whereabouts(int rank) const { return whereabouts_.at(rank); }
    /// Returns what another rank's error says about a missing or lost rank, such as `does not answer: it is
    /// stopped, cut off or gone`, and the rank with that error. "": nothing.
    std::pair<std::string, int> reported(int rank) const;
    /// Returns a number that is equal for calls that agree.
    int agreement(const RecordedEntry& entry) const { return agreements_.at(entry.call.get()); }
    const Agreement& agreement(int number) const {
        return known_agreements_[static_cast<std::size_t>(number)];
    }

    /// Returns true if the rank's device runs calls of several communicators in order, like NCCL.
    static bool is_device(const RecordedEntry& entry);
    /// Returns true if the record has no entry of the call but a status that says that the call has not
    /// ended.
    static bool is_unrecorded(const RecordedEntry& entry);
    /// Returns true if a rank wrote its record because of an error there.
    static bool says_wrong(const FlightRecord& record) {
        return !record.reason.empty() && record.reason != "request" && record.reason != "signal";
    }
    static bool is_over(const RecordedEntry& entry) { return entry.state == RecordedState::completed; }
    /// Returns true if a record can miss the end of a call: PyTorch's Gloo records the end a moment after the
    /// call returned.
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
    void infer_members();
    /// The groups of one description.
    struct Namesakes {
        std::size_t largest = 0;
        std::set<int> ranks;
        AxisSet axes;  ///< in which ranks of a group differ
    };
    std::map<std::string, Namesakes> namesakes() const;
    std::vector<int> likely_members(const Communicator& communicator, const Namesakes& others) const;
    std::map<int, const Communicator*> last_inferred() const;
    void tell_kinds_apart();
    void tell_labels_apart();
    void read_reports();
    Whereabouts find_whereabouts(const FlightRecord& record);
    const RecordedEntry* find_failed(const FlightRecord& record) const;
    bool is_late(const FlightRecord& record, const RecordedEntry& entry) const;

    Places places_;
    std::map<int, const FlightRecord*> by_rank_;
    std::map<int, std::pair<std::string, int>> reported_;
    std::set<int> missed_;  // ranks that were missing when timeouts of others expired
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
    std::deque<RecordedEntry> unrecorded_;  // calls for which records contain only that they have not ended
    std::vector<UnreadFile> unread_;
    std::map<int, const UnreadFile*> unread_of_;
    std::vector<std::string> notes_;
};

}  // namespace rankmesh::detail::explaining
