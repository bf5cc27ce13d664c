// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// A datagram between the watchdogs of one host; an answer is followed by its text, a question by the name of
/// the record_key that it is about, if it is about one.
struct PeerMessage {
    enum class Kind : std::uint32_t { question = 0x726d7133, answer = 0x726d6133, end = 0x726d6533 };
    struct Head {
        Kind kind;
        std::int32_t rank;
        std::uint64_t key = 0;
        std::uint64_t number = 0;
        std::uint64_t flags = 0;  // of an answer; of a question: 1 for a report
        // Of an answer: the channel and the number of the call that the rank waits in, if it is in one.
        std::uint64_t in_key = 0;
        std::uint64_t in_number = 0;
    };
    static constexpr std::size_t longest_text = 400;
    static constexpr std::size_t longest = sizeof(Head) + longest_text;

    Head head;
    std::string text = {};

    std::string bytes() const {
        auto bytes = std::string(reinterpret_cast<const char*>(&head), sizeof head);
        return bytes.append(text, 0, longest_text);
    }
    /// Returns nothing if the bytes are not a message of a rank.
    static std::optional<PeerMessage> from(std::string_view bytes) {
        auto read = PeerMessage{};
        if (bytes.size() < sizeof read.head || bytes.size() > longest) return std::nullopt;
        std::memcpy(&read.head, bytes.data(), sizeof read.head);
        const auto kind = read.head.kind;
        if (kind != Kind::question && kind != Kind::answer && kind != Kind::end) return std::nullopt;
        if (read.head.rank < 0) return std::nullopt;
        read.text = bytes.substr(sizeof read.head);
        return read;
    }
};

/// The call that a rank waits in.
struct AwaitedCall {
    std::uint64_t key = 0;     // of the channel
    std::uint64_t number = 0;  // of a collective, 0 for a message
    std::vector<int> ranks;    // whose call it needs
};

/// A rank's answer to a watchdog that waits for it.
struct RankStatus {
    bool arrived = false;
    bool ended = false;                          // its world has: it makes no more calls
    std::optional<bool> started = std::nullopt;  // how it made that call: started, or blocking
    std::string text = {};                       // `in all_reduce of ...`
    std::string call = {};                       // while it is in that call: `all_reduce of 4 f32 by sum`
    std::optional<AwaitedCall> waits = std::nullopt;  // where the ranks of the call fit into an answer
};

class PeerQuery;

/// This rank's answer about the call of that number on the channel of that key in a world, or on the one that
/// is recorded as `record_key`.
using RankStatusOf = std::function<RankStatus(const PeerQuery& world, std::uint64_t key, std::uint64_t number,
                                              const std::string& record_key)>;

/// Queries between the watchdogs of one world's processes while their main threads are blocked: datagrams
/// between sockets that are named after the world and the rank, so that no process needs a table of
/// addresses. Those of other users are ignored.
///
/// It reaches the processes of this host only.
class PeerQuery {
public:
    /// `world` is a random number that only the ranks of the world have; `local` are its ranks on this host.
    /// If sockets are not available, no rank answers.
    PeerQuery(std::uint64_t world, int rank, std::vector<int> local);
    ~PeerQuery() {
        if (socket_ >= 0) ::close(socket_);
    }
    PeerQuery& operator=(PeerQuery&&) = delete;

    int rank() const { return rank_; }
    int descriptor() const { return socket_; }
    /// True if that rank was started on this host: if it does not answer and is not mute, it has ended.
    bool is_local(int rank) const { return std::ranges::find(local_, rank) != local_.end(); }
    /// Answers every question that has arrived; true if there was one for a report.
    bool answer(const RankStatusOf& self) { return take(self, nullptr); }

    /// From here on this rank makes no more calls on the channel of that key, of which it made `reached`.
    void close(std::uint64_t key, std::uint64_t reached) { closed_.emplace_back(key, reached); }
    /// How many calls it made on a closed channel, 0 if it has closed none of that key.
    std::uint64_t reached(std::uint64_t key) const {
        const auto found = std::ranges::find(closed_, key, &std::pair<std::uint64_t, std::uint64_t>::first);
        return found == closed_.end() ? 0 : found->second;
    }
    /// Tells the ranks of this host that this one makes no more calls in this world, and returns true once
    /// none of them can ask any more. Called again until then.
    bool announce_end() const;
    struct Ended {
        int rank;
        std::chrono::steady_clock::time_point heard;
    };
    /// The ranks that have announced their end.
    const std::vector<Ended>& ended() const { return ended_; }

    struct Answers {
        std::map<int, RankStatus> told;
        std::vector<int> mute;  // whose process is there, but has not answered: stopped, or starved
    };
    /// Asks these ranks until all that are there have answered, at most for `patience`; answers questions
    /// meanwhile.
    Answers ask(std::span<const int> ranks, std::uint64_t key, std::uint64_t number, const RankStatusOf& self,
                Duration patience, bool for_report, const std::string& record_key = {});

private:
    bool take(const RankStatusOf& self, std::map<int, RankStatus>* answers);
    bool send(const std::string& message, int to) const;

    const std::uint64_t world_;
    const int rank_;
    const std::vector<int> local_;
    int socket_ = -1;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> closed_;  // key, and calls made
    std::vector<Ended> ended_;
};

}  // namespace rankmesh::detail
