// SPDX-License-Identifier: Apache-2.0
// Member, this process's coordinate, neighbours and communicators after a join.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/device_settings.hpp>
#include <rankmesh/engine/usage.hpp>

namespace rankmesh {

namespace detail {
struct MemberState;
}

/// Options of a group that is made at run time.
struct GroupOptions {
    /// The name in errors and records, valid like the name of an axis; empty: the group's ranks or its color.
    std::string name = {};
    /// The timeout of blocking calls; unset: the timeout of the mesh.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
    /// Settings of the communicator on devices, see `Axes::tuned`.
    DeviceSettings tuned = {};
};

/// This process's view of a plan, or of one of its meshes: its coordinate, neighbours and communicators.
///
/// In a plan of several meshes, `member["expert"]` is the view of one mesh. Calls that need one mesh throw
/// UsageError, which lists the meshes. If an exception destroys a member whose peers may wait, the destructor
/// does not wait: it ends the job (MPI) or fails the communicators (threads, Gloo).
class RANKMESH_EXPORT Member {
public:
    Member(Member&& other) noexcept;
    Member& operator=(Member&& other) noexcept;
    ~Member();

    /// Returns the view of the mesh of that name. Throws UsageError, which suggests the nearest name, if
    /// there is none. Const, so that a reference can hold it.
    ///
    ///     void sum(const Member& me, std::vector<float>& x) {
    ///         auto& dense = me["dense"];
    ///         dense.on("dp").all_reduce(x);
    ///     }
    const Member operator[](std::string_view mesh) const&;
    const Member operator[](std::string_view mesh) &&;
    /// Returns the names of the plan's meshes, in the order of the plan.
    std::vector<std::string> meshes() const;

    /// Returns this process's rank in the world; size() returns the number of ranks.
    int rank() const;
    int size() const;
    /// The name of this process's host, its index among the world's ranks there, from 0, and their number.
    std::string host() const;
    int local_rank() const;
    int local_size() const;
    /// The mesh with `rest` resolved; if the declaration sets `placed`, its ranks are positions in `placed`,
    /// not world ranks.
    const Mesh& mesh() const;
    /// Returns true if this rank is in the mesh. If not, the calls below throw UsageError.
    bool inside() const;
    Coordinate coord() const;
    /// Returns the prefix of this rank's log lines: `[pp=1 dp=0 tp=3]`, or `[rank 5]` outside the mesh.
    std::string prefix() const;
    /// Returns this rank's index on an axis, or among the declared local ranks.
    int at(std::string_view axis) const;
    bool is_first(std::string_view axis) const { return at(axis) == 0; }
    bool is_last(std::string_view axis) const;
    /// Returns the world rank at distance `by` along an axis; nullopt past an open edge.
    std::optional<int> neighbor(std::string_view axis, Int by, Edge edge = Edge::open) const;

    /// Returns the world rank at a coordinate of the mesh. Also for ranks outside the mesh, which can then
    /// send to it.
    ///
    ///     void hand_over(Member& me, std::vector<float>& weights) {
    ///         auto all = me["all"].on("world");
    ///         const auto to = me["rollout"].rank_at({{"dp", 0}, {"tp", 1}});
    ///         all.send(weights, *all.group_rank_of(to));
    ///     }
    int rank_at(const Coordinate& coordinate) const;

    /// Returns the communicator of a single axis, of a declared set in any order, or of a declared pick,
    /// separate set or local ranks by name.
    ///
    /// Throws UsageError, which names the declaration to add, if there is none. Throws UsageError, which
    /// lists the members, for a pick without this rank.
    Communicator on(AxisRef auto const&... axes) const {
        const std::string_view names[] = {name_of(axes)...};
        return on(std::span<const std::string_view>(names));
    }
    Communicator on(std::span<const std::string_view> names) const;
    /// Like `on`, but returns nullopt if this rank has no such communicator.
    std::optional<Communicator> find(AxisRef auto const&... axes) const {
        const std::string_view names[] = {name_of(axes)...};
        return find(std::span<const std::string_view>(names));
    }
    std::optional<Communicator> find(std::span<const std::string_view> names) const;

    /// Connects a set that a lazy declaration deferred. Collective: every rank of the mesh calls it with the
    /// same names.
    void prepare(AxisRef auto const&... axes) const {
        const std::string_view names[] = {name_of(axes)...};
        prepare(std::span<const std::string_view>(names));
    }
    void prepare(std::span<const std::string_view> names) const;

    /// Returns a communicator of these world ranks, in that order. Exactly these ranks call it; no other rank
    /// takes part.
    ///
    /// First the ranks compare their lists, by one message from each rank to each other. Groups with the same
    /// ranks in the same order share a channel, declared or not. A channel lives as long as the member.
    /// Throws UsageError for ranks that do not exist, repeat, or do not include this rank. Throws
    /// Disagreement on every participating rank, with each rank's arguments, if lists, names or settings
    /// differ. Throws Timeout, with the missing ranks, after the world's timeout.
    ///
    ///     void route(Member& me, std::vector<float>& tokens) {
    ///         if (me.rank() % 2 == 0 && me.rank() < 6)
    ///             me.group({0, 2, 4}, {.name = "routers"}).all_reduce(tokens);
    ///     }
    Communicator group(const std::vector<int>& ranks, const GroupOptions& options = {}) const;

    /// Returns the communicator of the ranks of `over` with the same color, ordered by key, then as in
    /// `over`; like MPI_Comm_split. Returns nullopt for a rank without a color. Collective over `over`; uses
    /// one all_gather.
    ///
    /// Colors are any numbers, and group sizes may differ. Everything else is as for `group`, with two
    /// exceptions: lists cannot differ, and each rank may use its own name for the group.
    ///
    ///     void balance(Member& me, std::vector<float>& work, bool idle) {
    ///         auto busy = me.split(me.on("dp"), idle ? std::nullopt : std::optional(0));
    ///         if (busy) busy->all_reduce(work);
    ///     }
    std::optional<Communicator> split(const Communicator& over, std::optional<int> color, int key = 0,
                                      const GroupOptions& options = {}) const;
    /// Splits all ranks of the world.
    ///
    ///     void by_host(Member& me, int node, std::vector<float>& cache) {
    ///         me.split(node)->broadcast(cache, 0);
    ///     }
    std::optional<Communicator> split(std::optional<int> color, int key = 0,
                                      const GroupOptions& options = {}) const;

    /// Releases the resources of an idle communicator of a declared set: Gloo's connections, NCCL's memory.
    /// Threads and MPI have nothing to release. Collective over the ranks of the group.
    ///
    /// Waits for all ranks of the group. Until `resume`, every call on the group, and on groups that share
    /// its channel, throws UsageError. Does nothing if the group is already suspended. Throws UsageError
    /// while started calls are not complete.
    ///
    ///     void generate(Member& me, const std::function<void()>& rollout) {
    ///         me.suspend("dp");
    ///         rollout();
    ///         me.resume("dp");
    ///     }
    void suspend(AxisRef auto const&... axes) const
        requires(sizeof...(axes) > 0)
    {
        const std::string_view names[] = {name_of(axes)...};
        suspend(std::span<const std::string_view>(names));
    }
    void suspend(std::span<const std::string_view> names) const;
    /// Suspends a communicator of this member, for example of a group made at run time.
    void suspend(const Communicator& on) const;
    /// Suspends all communicators of the plan, or of this view's mesh. Every rank calls it.
    void suspend() const;
    /// Restores what `suspend` released. Must be called with the same arguments.
    void resume(AxisRef auto const&... axes) const
        requires(sizeof...(axes) > 0)
    {
        const std::string_view names[] = {name_of(axes)...};
        resume(std::span<const std::string_view>(names));
    }
    void resume(std::span<const std::string_view> names) const;
    void resume(const Communicator& on) const;
    void resume() const;

    /// Returns the resources that this process's communicators hold now. Does not communicate.
    ///
    ///     void report(const Member& me, std::ostream& out) { out << me.usage().connections(); }
    Usage usage() const;
    /// Returns the resources of one communicator; empty for a group of one. Throws UsageError for a
    /// communicator of another member.
    Usage usage(const Communicator& on) const;

    /// Returns the number of channels of this process in the whole plan: one for each distinct group of two
    /// or more ranks.
    int channel_count() const;

private:
    friend class World;
    Member(std::shared_ptr<detail::MemberState> state, int mesh, bool owner);
    int index_of(std::string_view mesh) const;
    std::string_view name_of(AxisId axis) const { return mesh().name(axis); }
    std::string_view name_of(std::string_view axis) const { return axis; }

    std::shared_ptr<detail::MemberState> state_;  // null: moved from
    int mesh_ = -1;                               // -1: the whole plan of several
    bool owner_ = false;                          // true: returned by join; false: by operator[]
    int exceptions_ = 0;                          // in flight when it was made
};

}  // namespace rankmesh
