// SPDX-License-Identifier: Apache-2.0
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
    /// What errors and records call it, a name as an axis has; empty: its ranks, or its color.
    std::string name = {};
    /// The timeout of its blocking calls; unset: the mesh's.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
    /// The settings of its communicator on devices, as `Axes::tuned` says.
    DeviceSettings tuned = {};
};

/// This process's part in a plan, or in one of its meshes: its coordinate, its neighbours and its
/// communicators.
///
/// In a plan of several meshes `member["expert"]` is its part in that mesh; calls that need one mesh throw
/// UsageError that names the meshes. Destroyed while an exception unwinds, a member whose peers may wait
/// never waits: it ends the job (MPI) or fails its communicators (threads, Gloo).
class RANKMESH_EXPORT Member {
public:
    Member(Member&& other) noexcept;
    Member& operator=(Member&& other) noexcept;
    ~Member();

    /// The part in the mesh of that name; throws UsageError that suggests the nearest name.
    Member operator[](std::string_view mesh) const&;
    Member operator[](std::string_view mesh) &&;
    /// The names of the plan's meshes, in the order of the plan.
    std::vector<std::string> meshes() const;

    /// This process's rank in the world, and the number of ranks there.
    int rank() const;
    int size() const;
    /// The name of this process's host, its index among the world's ranks there, from 0, and their number.
    std::string host() const;
    int local_rank() const;
    int local_size() const;
    /// The mesh with `rest` resolved; if the declaration sets `placed`, its ranks are positions in `placed`,
    /// not world ranks.
    const Mesh& mesh() const;
    /// True if this rank is in the mesh; the calls below throw UsageError if it is not.
    bool inside() const;
    Coordinate coord() const;
    /// `[pp=1 dp=0 tp=3]`, the prefix of this rank's log lines; `[rank 5]` outside the mesh.
    std::string prefix() const;
    /// This rank's index on an axis, or among the declared local ranks.
    int at(std::string_view axis) const;
    bool is_first(std::string_view axis) const { return at(axis) == 0; }
    bool is_last(std::string_view axis) const;
    /// The world rank at distance `by` along an axis; with Edge::open nothing past its ends.
    std::optional<int> neighbor(std::string_view axis, Int by, Edge edge = Edge::open) const;

    /// The world rank at a coordinate of the mesh, also for ranks outside it: the peer to send to from
    /// another mesh.
    ///
    ///     void hand_over(Member& me, std::vector<float>& weights) {
    ///         auto all = me["all"].on("world");
    ///         const auto to = me["rollout"].rank_at({{"dp", 0}, {"tp", 1}});
    ///         all.send(weights, *all.group_rank_of(to));
    ///     }
    int rank_at(const Coordinate& coordinate) const;

    /// The communicator of a single axis, a declared set in any order, or a declared pick, separate or
    /// local ranks by their name.
    ///
    /// Throws UsageError that names the declaration to add where there is none, or the members of a pick to
    /// which this rank does not belong.
    Communicator on(AxisRef auto const&... axes) const {
        const std::string_view names[] = {name_of(axes)...};
        return on(std::span<const std::string_view>(names));
    }
    Communicator on(std::span<const std::string_view> names) const;
    /// The same, but nothing instead of UsageError where this rank has no such communicator.
    std::optional<Communicator> find(AxisRef auto const&... axes) const {
        const std::string_view names[] = {name_of(axes)...};
        return find(std::span<const std::string_view>(names));
    }
    std::optional<Communicator> find(std::span<const std::string_view> names) const;

    /// Connects a set that a lazy declaration deferred; collective: every rank of the mesh calls it with the
    /// same names.
    void prepare(AxisRef auto const&... axes) const {
        const std::string_view names[] = {name_of(axes)...};
        prepare(std::span<const std::string_view>(names));
    }
    void prepare(std::span<const std::string_view> names) const;

    /// A communicator of these ranks of the world, in that order; called by exactly those ranks, and no other
    /// rank takes part.
    ///
    /// They compare their lists before anything is made, by one message from each to each other one. Groups
    /// with the same ranks in the same order share a channel, declared or not; a channel lives as long as the
    /// member. Throws UsageError for ranks that do not exist, repeat, or leave this one out; Disagreement on
    /// every rank that takes part if the lists, names or settings differ, with who asks for what; Timeout,
    /// within the world's timeout, with the ranks that have not come.
    ///
    ///     void route(Member& me, std::vector<float>& tokens) {
    ///         if (me.rank() % 2 == 0 && me.rank() < 6)
    ///             me.group({0, 2, 4}, {.name = "routers"}).all_reduce(tokens);
    ///     }
    Communicator group(const std::vector<int>& ranks, const GroupOptions& options = {}) const;

    /// The communicator of the ranks of `over` that give the same color, ordered by key and then as in
    /// `over`; collective over `over`, in one all_gather. Nothing for a rank without a color.
    ///
    /// Colors are any numbers, and sizes may differ. What is made, shared and thrown is as `group` says, but
    /// that the lists cannot differ, and a name is what this rank calls the group.
    ///
    ///     void balance(Member& me, std::vector<float>& work, bool idle) {
    ///         auto busy = me.split(me.on("dp"), idle ? std::nullopt : std::optional(0));
    ///         if (busy) busy->all_reduce(work);
    ///     }
    std::optional<Communicator> split(const Communicator& over, std::optional<int> color, int key = 0,
                                      const GroupOptions& options = {}) const;
    /// The same of all ranks of the world.
    ///
    ///     void by_host(Member& me, int node, std::vector<float>& cache) {
    ///         me.split(node)->broadcast(cache, 0);
    ///     }
    std::optional<Communicator> split(std::optional<int> color, int key = 0,
                                      const GroupOptions& options = {}) const;

    /// Releases what the communicator of a declared set holds while it is idle: Gloo's connections, NCCL's
    /// memory. Threads and MPI have nothing to release. Collective over the ranks of the group.
    ///
    /// Waits for all of them. Every call on the group, and on all that share its channel, throws UsageError
    /// until `resume`; nothing happens where it is suspended already. Throws UsageError while calls that were
    /// started on it are not complete.
    ///
    ///     void generate(Member& me, const std::function<void()>& rollout) {
    ///         me.suspend("dp");
    ///         rollout();
    ///         me.resume("dp");
    ///     }
    void suspend(AxisRef auto const&... axes) const requires(sizeof...(axes) > 0) {
        const std::string_view names[] = {name_of(axes)...};
        suspend(std::span<const std::string_view>(names));
    }
    void suspend(std::span<const std::string_view> names) const;
    /// The same of a communicator of this member, as of a group that was made at run time.
    void suspend(const Communicator& on) const;
    /// The same of all communicators of the plan, or of those of the mesh that this view is of; every rank
    /// calls it.
    void suspend() const;
    /// Brings back what `suspend` released; called as that was.
    void resume(AxisRef auto const&... axes) const requires(sizeof...(axes) > 0) {
        const std::string_view names[] = {name_of(axes)...};
        resume(std::span<const std::string_view>(names));
    }
    void resume(std::span<const std::string_view> names) const;
    void resume(const Communicator& on) const;
    void resume() const;

    /// What this process's communicators hold now; asks nobody.
    ///
    ///     void report(const Member& me, std::ostream& out) { out << me.usage().connections(); }
    Usage usage() const;
    /// The same of one communicator of this member; none is listed where it has one rank. Throws UsageError
    /// for one of another member.
    Usage usage(const Communicator& on) const;

    /// How many channels this process has in the whole plan: one for each distinct group of more than one
    /// rank.
    int channel_count() const;

private:
    friend class World;
    Member(std::shared_ptr<detail::MemberState> state, int mesh, bool owner);
    int index_of(std::string_view mesh) const;
    std::string_view name_of(AxisId axis) const { return mesh().name(axis); }
    std::string_view name_of(std::string_view axis) const { return axis; }

    std::shared_ptr<detail::MemberState> state_;  // null: moved from
    int mesh_ = -1;                               // -1: the whole plan of several
    bool owner_ = false;                          // came from join, not from operator[]
    int exceptions_ = 0;                          // in flight when it was made
};

}  // namespace rankmesh
