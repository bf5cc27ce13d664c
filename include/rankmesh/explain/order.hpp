// SPDX-License-Identifier: Apache-2.0
// Finds deadlocks in the order of calls of a program.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh {

/// One message of a batch: to or from a world rank.
struct MessagePart {
    enum class Kind : std::uint8_t { send, recv };
    Kind kind = Kind::send;
    int peer = 0;
};

/// A deadlock: a chain of ranks in which each rank waits for the next.
struct Deadlock {
    /// One rank in the chain, and the call in which it waits.
    struct Wait {
        int rank = 0;
        std::string operation;
        std::string communicator;
        std::vector<int> group;          ///< the communicator's world ranks, in its order
        bool is_group_inferred = false;  ///< no record lists them
        std::int64_t number = 0;  ///< of the call on its communicator, from 1; messages count separately
        bool is_message = false;
        int waits_for = 0;  ///< the rank that has not made this call
    };

    std::vector<Wait> chain;  ///< each rank waits for the rank of the next entry
    bool is_cycle = false;    ///< true: the last waits for the first; false: for a rank whose list has ended
    std::vector<int> stuck;   ///< all ranks that do not reach the end of their list, ascending
};

/// The calls of each rank of a program, in order; finds whether they can deadlock.
///
/// A collective blocks each member until all members have called it. A message blocks both ends until both
/// have called it. A started call blocks its rank only where the rank waits for it. Engines may buffer and
/// let a rank continue earlier, but programs must not rely on that. Peers and members are world ranks.
///
/// Law: the set of blocked ranks is the same for every order of arrival, because a call that can complete
/// remains able to complete. Hence one run in any order decides for all orders.
///
///     auto order = CallOrder(2);
///     const auto tp = order.communicator("'tp'", {0, 1});
///     const auto dp = order.communicator("'dp'", {0, 1});
///     order.call(0, tp, "all_reduce"), order.call(0, dp, "barrier");
///     order.call(1, dp, "barrier"), order.call(1, tp, "all_reduce");
///     EXPECT_EQ(to_string(order.deadlock().value()),
///               "rank 0 waits in all_reduce, call 1 on 'tp' {0, 1}, for rank 1, which waits in barrier, "
///               "call 1 on 'dp' {0, 1}, for rank 0");
class RANKMESH_EXPORT CallOrder {
public:
    /// Makes empty lists for `ranks` ranks. Throws UsageError for fewer than one.
    explicit CallOrder(int ranks);

    /// Adds a communicator and returns its number, which the calls below take. Throws UsageError for a rank
    /// that the program does not have, or for a repeated rank.
    int communicator(std::string_view name, std::vector<int> ranks);

    /// Appends a blocking collective to the list of `rank`. Throws UsageError if `rank` is not a member.
    void call(int rank, int communicator, std::string_view operation);
    /// Appends a collective that only starts, and returns its number for `wait`.
    int start(int rank, int communicator, std::string_view operation);
    /// Appends messages that are sent and received together, and a wait for all of them: a send, a recv, a
    /// send_recv or a batch.
    void messages(int rank, int communicator, std::string_view operation, std::span<const MessagePart> parts);
    int start_messages(int rank, int communicator, std::string_view operation,
                       std::span<const MessagePart> parts);
    void send(int rank, int communicator, int to);
    void recv(int rank, int communicator, int from);
    /// Appends a wait for a started call. Throws UsageError if `rank` did not start it.
    void wait(int rank, int started);

    /// Declares that the list of `rank` begins after its first `calls` collectives on the communicator.
    void skip(int rank, int communicator, std::int64_t calls);
    /// Declares that the calls of `rank` are unknown; it blocks no other rank.
    void unknown(int rank);

    /// Returns the calls at which the program deadlocks; nullopt if every rank reaches the end of its list.
    ///
    /// Returns a cycle if there is one, else a chain to a rank whose list has ended.
    std::optional<Deadlock> deadlock() const;

private:
    friend class OrderRun;
    static constexpr std::int64_t always = std::numeric_limits<std::int64_t>::max();

    struct Communicator {
        std::string name;
        std::vector<int> ranks;
        std::map<int, std::int64_t> skipped;  // by rank
    };
    struct Part {
        std::int64_t number = 0;  // of the collective, or of the message of this kind with this peer, from 1
        int peer = -1;            // -1: a collective
        MessagePart::Kind kind = MessagePart::Kind::send;
    };
    struct Operation {
        int name = 0;
        int communicator = 0;
        std::uint32_t first_part = 0;
        std::uint32_t parts = 0;
        std::int64_t number = 0;  // as in texts: collectives and messages count separately
    };
    struct Step {
        int operation = 0;
        bool posts = false;
        bool waits = false;
    };
    struct List {
        std::vector<Operation> operations;
        std::vector<Part> parts;
        std::vector<Step> steps;
        std::map<std::tuple<int, int, int>, std::int64_t> counts;  // by communicator, peer and kind
        bool is_unknown = false;
    };

    List& list_of(int rank);
    int append(int rank, int communicator, std::string_view operation, std::span<const MessagePart> parts,
               bool waits);
    int name_of(std::string_view operation);

    std::vector<Communicator> communicators_;
    std::vector<List> lists_;
    std::vector<std::string> names_;
};

/// Returns the chain in words: `rank 0 waits in all_reduce, call 3 on 'tp' {0, 1}, for rank 1, which waits in
/// ...`.
RANKMESH_EXPORT std::string to_string(const Deadlock& deadlock);

}  // namespace rankmesh
