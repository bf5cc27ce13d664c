// SPDX-License-Identifier: Apache-2.0
// The messages of a job, by communicator, sender and receiver.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include <rankmesh/explain/explain.hpp>

#include "explain/evidence.hpp"

namespace rankmesh::detail::explaining {

/// The ends of all messages from one rank to another on one communicator, each in the order of its rank's
/// calls.
struct Stream {
    std::vector<const RecordedEntry*> sends;
    std::vector<const RecordedEntry*> receives;
    bool is_whole = true;  ///< both ranks' records have them from the first on
};

class Messages {
public:
    explicit Messages(const Evidence& evidence);

    using Key = std::tuple<int, int, int>;  ///< the communicator's number, the sender, the receiver
    const std::map<Key, Stream>& streams() const { return streams_; }
    /// The ranks that a message waits for: none, or its peers that have not come to their end of it.
    std::vector<int> missing(int rank, const RecordedEntry& entry) const;
    /// The world ranks that it sends to, and receives from; -1: none.
    std::pair<int, int> peers(const RecordedEntry& entry) const;

private:
    bool has_come(const Key& key, const RecordedEntry& entry, bool is_send) const;

    const Evidence& evidence_;
    std::map<Key, Stream> streams_;
};

/// Messages whose ends differ in length or type, or name other peers.
std::vector<Finding> differing_messages(const Evidence& evidence, const Messages& messages);

}  // namespace rankmesh::detail::explaining
