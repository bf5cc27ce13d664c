// SPDX-License-Identifier: Apache-2.0
// All ranks of a world in one process, one after the other, on one stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/exchange.hpp"

namespace rankmesh::detail {

/// The ranks of a world that exchange entries, each written once under a name.
///
/// A rank that needs an entry which nobody has written is unwound by an exception, and its program runs again
/// from the beginning once it is there. Steps that it has taken before then return what they returned, and
/// are neither counted nor timed again: a program that depends on nothing but what it reads takes the same
/// steps. So nothing is kept of a rank that waits but how far it came.
class Replay {
public:
    /// The exception that unwinds a rank. It is no std::exception, so that no program takes it for an error.
    struct Blocked {};

    /// How far a rank has come.
    struct Progress {
        std::uint32_t done = 0;    // steps
        std::uint32_t rounds = 0;  // the longest chain of messages that led here
        std::uint64_t trace = 0;   // a hash of the steps
        double time = 0;           // in seconds
    };

    /// One run of the program of one rank.
    class Run {
    public:
        Run(Replay& replay, int rank) : replay_(replay), rank_(rank) {}
        int rank() const { return rank_; }
        /// Writes an entry, which takes the rank `cost` and is there for others after `delay`; true if the
        /// step is new. Throws EngineFailure if there is one of that name.
        bool write(const std::string& name, std::string_view text, double cost, double delay);
        /// Reads entries, which takes `cost` once all of them are there; true if the step is new.
        bool read(std::span<const std::string> names, std::vector<std::string>& texts, double cost);
        /// A step that neither writes nor waits; true if it is new.
        bool pass(std::string_view name, double cost);
        /// The program has ended; throws EngineFailure if it took more steps before.
        void finish() const;

    private:
        Progress& progress() { return replay_.progress_[static_cast<std::size_t>(rank_)]; }
        bool begin(std::string_view name);
        void check(std::string_view name) const;
        void end(double time, std::uint32_t rounds);

        Replay& replay_;
        const int rank_;
        std::uint32_t steps_ = 0;
        std::uint64_t trace_ = 0;
    };

    explicit Replay(int size) : progress_(static_cast<std::size_t>(size)) {}

    /// Runs the program of every rank to its end, or as far as it gets; the highest rank begins.
    void run(const std::function<void(Run&)>& program);

    std::vector<Progress>& progress() { return progress_; }
    /// The ranks whose programs have not ended, each with the entry that it waits for, by rank.
    std::vector<std::pair<int, std::string>> waiting() const;

private:
    struct Entry {
        std::string text;
        std::vector<int> waiting;
        double time = 0;
        std::uint32_t rounds = 0;
        bool written = false;
    };

    std::vector<Progress> progress_;  // by rank
    std::unordered_map<std::string, Entry> entries_;
    std::deque<int> ready_;
};

/// The creations of all ranks of a world. What `Exchange::create` returns decides nothing in a join: so they
/// are noted while ranks run, and matched once all have.
class Creations {
public:
    explicit Creations(int size) : made_(static_cast<std::size_t>(size)) {}

    /// The `number`-th creation of a rank; false if it is known from an earlier run.
    bool add(int rank, std::size_t number, const ChannelRequest& request);
    std::size_t count(int rank) const { return made_[static_cast<std::size_t>(rank)].size(); }

    /// A rank that waits for others in its `number`-th creation, whose group has this id.
    struct Stuck {
        int rank;
        std::size_t number;
        std::uint32_t group;
    };
    /// Lets all ranks make their groups, each in its own order: a group is made once all its ranks are there,
    /// `cost` of its size later. Returns those that never come further.
    std::vector<Stuck> match(std::vector<Replay::Progress>& progress,
                             const std::function<double(int size)>& cost);

private:
    struct Group {
        int size = 0;
        int arrived = 0;
        int last = -1;  // of those that have arrived, each of which names the one before
        double time = 0;
        std::uint32_t rounds = 0;
    };

    std::vector<std::vector<std::uint32_t>> made_;  // by rank: its groups, in its order
    std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
    std::vector<Group> groups_;
};

}  // namespace rankmesh::detail
