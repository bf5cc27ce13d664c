// SPDX-License-Identifier: Apache-2.0
// The messages of a job, by communicator, sender and receiver.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include <rankmesh/explain/explain.hpp>

#include "explain/evidence.hpp"

namespace rankmesh::detail::explaining {

/// The messages from one rank to another on one communicator: both ends, each in the order of its rank's
/// calls.
struct Stream {
    std::vector<const RecordedEntry*> sends;
    std::vector<const RecordedEntry*> receives;
    bool is_whole = true;  ///< the records of both ranks have the messages from the first on
};

class Messages {
public:
    explicit Messages(const Evidence& evidence);

    using Key = std::tuple<int, int, int>;  ///< the communicator's number, the sender, the receiver
    const std::map<Key, Stream>& streams() const { return streams_; }
    /// Returns the ranks that a message waits for: its peers that have not reached their end.
    std::vector<int> missing(int rank, const RecordedEntry& entry) const;
    /// Returns the world ranks that an entry sends to and receives from; -1: none.
    std::pair<int, int> peers(const RecordedEntry& entry) const;

private:
    std::vector<int> missing_senders(int rank, const RecordedEntry& entry) const;
    bool has_come(const Key& key, const RecordedEntry& entry, bool is_send) const;

    const Evidence& evidence_;
    std::map<Key, Stream> streams_;
};

/// Finds messages whose ends differ in length or type, or name other peers.
std::vector<Finding> differing_messages(const Evidence& evidence, const Messages& messages);

}  // namespace rankmesh::detail::explaining
