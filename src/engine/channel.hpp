// SPDX-License-Identifier: Apache-2.0
// What an engine implements for one live group, and what a handle adds to it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rankmesh/core/group.hpp>
#include <rankmesh/engine/call.hpp>

namespace rankmesh::detail {

using Duration = std::chrono::nanoseconds;

/// The ordered world ranks of a group: closed form, through a table where the declaration placed ranks.
struct Ranks {
    Group group;
    std::shared_ptr<const std::vector<int>> placed = nullptr;  // null: the group holds world ranks

    int size() const { return group.size(); }
    int operator[](int i) const { return placed ? (*placed)[static_cast<std::size_t>(group[i])] : group[i]; }
    std::vector<int> list() const;
    friend std::string to_string(const Ranks& ranks);
};

/// Who calls: what a report or an error says of a group.
struct Label {
    std::string mesh;    // `pp=2 dp=4`
    std::string name;    // the mesh's name in the plan, or ""
    std::string axes;    // `dp,tp`, or the name of a pick
    std::string member;  // `pp=1 dp=0 tp=3`
    Ranks ranks;

    /// `'dp,cp' of mesh 'dense'`.
    std::string text() const;
};

/// One live group on one engine, shared by all handles with the same ordered ranks.
///
/// A call was checked for lengths before it comes here. Every call names its label and deadline, since
/// handles of several meshes share a channel.
class Channel {
public:
    virtual ~Channel() = default;

    /// Runs one operation to its end.
    virtual void run(const Call& call, const Label& label, Duration deadline) = 0;
    /// Starts one; the ticket stands for it until `wait` or `leave`.
    virtual std::uint64_t start(const Call& call, const Label& label) = 0;
    virtual void wait(std::uint64_t ticket, const Label& label, Duration deadline) = 0;
    virtual bool done(std::uint64_t ticket) = 0;
    /// Gives up a started operation while an exception unwinds: its buffers are about to go.
    virtual void leave(std::uint64_t ticket, const Label& label) noexcept = 0;
    /// This member is gone and will call nothing more.
    virtual void leave() noexcept = 0;

    /// Marks the channel as in use by this thread while it lives; throws Misuse if another thread uses it.
    ///
    /// A load and a store, not an exchange, whose locked instruction would be half of all that a call costs
    /// here: two threads that come within the same few nanoseconds are not seen, one that blocks while
    /// another comes is.
    class Use {
    public:
        Use(Channel& channel, const Label& label) : channel_(channel) {
            if (channel_.in_use_.load(std::memory_order_acquire)) throw_in_use(label);
            channel_.in_use_.store(true, std::memory_order_relaxed);
        }
        ~Use() { channel_.in_use_.store(false, std::memory_order_release); }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

    private:
        [[noreturn]] static void throw_in_use(const Label& label);
        Channel& channel_;
    };

    /// Keeps a label alive as long as the channel: a report may read it at any time.
    void keep(std::shared_ptr<const Label> label) { labels_.push_back(std::move(label)); }

private:
    std::atomic<bool> in_use_ = false;
    std::vector<std::shared_ptr<const Label>> labels_;
};

/// What stands behind a Communicator.
struct Line {
    std::shared_ptr<Channel> channel;
    std::shared_ptr<const Label> label;
    Duration deadline;
    int rank = 0;  // this process's position in the group
    int size = 1;
    std::shared_ptr<void> world;  // keeps the engine alive
};

/// Throws Misuse unless the buffers of `call` have the lengths that the operation asks for.
void check(const Call& call, int size, const Label& label);

}  // namespace rankmesh::detail
