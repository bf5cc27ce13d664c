// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/member.hpp>

#include <array>
#include <exception>
#include <limits>
#include <utility>

#include "engine/join/blueprint.hpp"
#include "engine/join/join.hpp"
#include "engine/roles.hpp"
#include "engine/timeout.hpp"
#include "engine/world_state.hpp"

namespace rankmesh {

using detail::cat;
using Connection = detail::Joining::Connection;
using Connections = std::span<Connection* const>;
using detail::MemberState;
using detail::MeshEntry;
using detail::quoted;
using detail::there_is;
using detail::valid;

namespace {

/// A group with these options, whose ranks are still to be found.
detail::NewGroup new_group(const std::shared_ptr<MemberState>& state, const GroupOptions& options) {
    const auto& device = valid(state).joining.device;
    if (!options.name.empty()) checked_name(options.name);
    if (options.timeout) detail::check_timeout(*options.timeout);
    const auto whose = options.name.empty() ? std::string("a group") : cat("the group '", options.name, "'");
    detail::check_settings(options.tuned, whose);
    if (device) device->check_settings(options.tuned, whose);
    return {.ranks = {}, .name = options.name, .timeout = options.timeout, .settings = options.tuned};
}

/// The mesh whose coordinates a new group has in errors.
const MeshEntry& mesh_of_groups(const MemberState& state, int mesh) {
    return state.mesh_entries[static_cast<std::size_t>(std::max(mesh, 0))];
}

/// Connects a group on which its ranks agree.
std::shared_ptr<detail::CommunicatorState> made(MemberState& state, int mesh, const detail::NewGroup& group) {
    const auto& of = mesh_of_groups(state, mesh);
    const auto label = detail::label_of(group, of);
    auto connected =
        detail::make_group(group, label, of, state.mesh_entries, state.joining, *state.world->groups);
    state.world->log(label->member.empty() ? cat("rank ", state.world->rank()) : label->member,
                     cat("made ", label->text_with_group()));
    return connected;
}

/// The connection of a communicator, none where it has one rank or is not connected; throws UsageError for
/// one of another member.
std::vector<Connection*> connections_of(const std::shared_ptr<MemberState>& state,
                                        const detail::CommunicatorState* on) {
    if (!on) return {};
    auto& all = valid(state).joining.connections;
    const auto found = std::ranges::find(all, on->host ? on->host->channel : on->channel, &Connection::host);
    if (found == all.end() && on->size > 1)
        throw UsageError(cat(on->label->text(),
                             " is not of this member, which can suspend, resume and count its own "
                             "communicators only; ask the member that it is of"));
    if (found == all.end()) return {};
    return {&*found};
}

/// Those of a whole plan, or of one of its meshes, in the order of creation, which all ranks have.
std::vector<Connection*> connections_of(const std::shared_ptr<MemberState>& state, int mesh) {
    auto all = std::vector<Connection*>{};
    for (auto& each : valid(state).joining.connections) all.push_back(&each);
    if (mesh < 0 || state->mesh_entries.size() == 1) return all;
    auto used = std::vector<Connection*>{};
    for (const auto& group_entry : state->mesh_entries[static_cast<std::size_t>(mesh)].group_entries)
        for (auto* connection : connections_of(state, group_entry.state.get())) used.push_back(connection);
    std::erase_if(all, [&](auto* each) { return std::ranges::find(used, each) == used.end(); });
    return all;
}

/// Runs a call that changes what connections hold.
void run(const char* call, void (*change)(detail::Joining&, Connections),
         const std::shared_ptr<MemberState>& state, Connections connections) {
    const auto use = detail::WorldState::Use(*state->world, call);
    detail::recording(*state->world, [&] { change(state->joining, connections); });
}

/// The connection of a declared set, for `call`.
std::vector<Connection*> connections_of(const std::shared_ptr<MemberState>& state, int mesh,
                                        detail::Names names, const char* call) {
    return connections_of(state, declared(mesh_with(state, mesh, names, call), names).state.get());
}

}  // namespace

Member::Member(std::shared_ptr<MemberState> state, int mesh, bool owner)
    : state_(std::move(state)), mesh_(mesh), owner_(owner), exceptions_(std::uncaught_exceptions()) {}
Member::Member(Member&& other) noexcept
    : state_(std::move(other.state_)),
      mesh_(other.mesh_),
      owner_(other.owner_),
      exceptions_(std::min(other.exceptions_, std::uncaught_exceptions())) {}

Member& Member::operator=(Member&& other) noexcept {
    auto taken = std::move(other);
    auto old = std::move(*this);  // leaves as a destroyed member does
    state_ = std::move(taken.state_);
    mesh_ = taken.mesh_;
    owner_ = taken.owner_;
    exceptions_ = taken.exceptions_;
    return *this;
}

Member::~Member() {
    // A member from operator[] is a view: it is destroyed after every call, also after one that throws.
    if (!state_ || !owner_ || std::uncaught_exceptions() <= exceptions_ || state_->world->is_foreign())
        return;
    state_->world->log("left its member by an exception");
    state_->joining.leave();
    // Peers may also wait in prepare, where no channel exists yet that could tell them.
    const auto deferred = [](const MeshEntry& mesh_entry) {
        return std::ranges::any_of(mesh_entry.group_entries, [](const auto& group_entry) {
            return group_entry.label && !group_entry.state;
        });
    };
    if (std::ranges::any_of(state_->mesh_entries, deferred))
        state_->world->leave(cat("rank ", state_->world->rank(), " left by an exception"));
}

const Member Member::operator[](std::string_view mesh) const& {
    return Member(state_, index_of(mesh), false);
}

const Member Member::operator[](std::string_view mesh) && {
    const auto index = index_of(mesh);
    return Member(std::move(state_), index, owner_);
}

int Member::index_of(std::string_view mesh) const {
    auto known = std::vector<std::string_view>{};
    for (const auto& mesh_entry : valid(state_).mesh_entries) {
        if (mesh_entry.mesh.name == mesh) return static_cast<int>(known.size());
        known.push_back(mesh_entry.mesh.name);
    }
    throw UsageError(
        cat("the plan has no mesh '", mesh, "'",
            known.size() == 1 && known[0].empty() ? "; its one mesh has no name" : there_is(mesh, known)));
}

std::vector<std::string> Member::meshes() const {
    auto names = std::vector<std::string>{};
    for (const auto& mesh_entry : valid(state_).mesh_entries) names.push_back(mesh_entry.mesh.name);
    return names;
}

int Member::rank() const { return valid(state_).world->rank(); }
int Member::size() const { return valid(state_).world->size(); }

const Mesh& Member::mesh() const { return mesh_of(state_, mesh_).mesh.mesh; }
bool Member::inside() const { return mesh_of(state_, mesh_).mesh_position.has_value(); }

Coordinate Member::coord() const {
    const auto& mesh_entry = mesh_of(state_, mesh_);
    return mesh_entry.mesh.mesh.coord(position_in(*state_, mesh_entry));
}

int Member::at(std::string_view axis) const {
    const auto& mesh_entry = mesh_along(state_, mesh_, axis, "at");
    if (const auto* group_entry = local_group_entry(mesh_entry, axis); group_entry && inside())
        return group_entry->group_rank;
    return mesh_entry.mesh.mesh.index(position_in(*state_, mesh_entry), axis);
}

bool Member::is_last(std::string_view axis) const {
    const auto* group_entry = local_group_entry(mesh_along(state_, mesh_, axis, "is_last"), axis);
    return at(axis) == (group_entry && inside() ? group_entry->label->ranks.size() : mesh().size(axis)) - 1;
}

std::optional<int> Member::neighbor(std::string_view axis, Int by, Edge edge) const {
    const auto& mesh_entry = mesh_along(state_, mesh_, axis, "neighbor", ", ...");
    if (const auto* group_entry = local_group_entry(mesh_entry, axis); group_entry && inside()) {
        const auto& ranks = group_entry->label->ranks;
        const auto next = detail::shifted(group_entry->group_rank, by, ranks.size(), edge);
        return next < 0 ? std::nullopt : std::optional(ranks[next]);
    }
    const auto found = mesh_entry.mesh.mesh.neighbor(position_in(*state_, mesh_entry), axis, by, edge);
    if (!found || !mesh_entry.mesh.placed) return found;
    return (*mesh_entry.mesh.placed)[static_cast<std::size_t>(*found)];
}

Communicator Member::on(std::span<const std::string_view> names) const {
    auto& mesh_entry = mesh_with(state_, mesh_, names, "on");
    const auto& group_entry = declared(mesh_entry, names);
    const auto mesh_position = position_in(*state_, mesh_entry);
    if (!group_entry.label) {
        const auto group =
            mesh_entry.mesh.mesh.group(mesh_position, group_entry.item.axes).pick(group_entry.item.picked);
        throw UsageError(cat("rank ", rank(), " is not in pick '", group_entry.item.name, "', which is ",
                             to_string(detail::Ranks{group, mesh_entry.mesh.placed}), " here; use find(\"",
                             group_entry.item.name, "\")"));
    }
    if (!group_entry.state)
        throw UsageError(cat(group_entry.label->text(),
                             " is lazy and not connected; every rank of the mesh calls prepare(",
                             quoted(names), ") first"));
    return Communicator(group_entry.state);
}

std::optional<Communicator> Member::find(std::span<const std::string_view> names) const {
    auto& mesh_entry = mesh_with(state_, mesh_, names, "find");
    const auto* group_entry = group_entry_of(mesh_entry, names);
    if (!group_entry || !group_entry->state) return std::nullopt;
    return Communicator(group_entry->state);
}

void Member::prepare(std::span<const std::string_view> names) const {
    auto& mesh_entry = mesh_with(state_, mesh_, names, "prepare");
    auto& group_entry = declared(mesh_entry, names);
    if (!group_entry.label || group_entry.state) return;
    const auto use = detail::WorldState::Use(*state_->world, "prepare");
    detail::connect_later(mesh_entry, group_entry, state_->joining, state_->mesh_entries);
    state_->world->log(group_entry.label->member, cat("prepared ", group_entry.label->text()));
}

Communicator Member::group(const std::vector<int>& ranks, const GroupOptions& options) const {
    auto group = new_group(state_, options);
    auto& world = *state_->world;
    world.check_listed(ranks, "a group", "group");
    group.ranks = ranks;
    const auto use = detail::WorldState::Use(world, "group");
    return Communicator(detail::recording(world, [&] {
        if (ranks.size() > 1)
            detail::agree_on_group(world.exchange(), *world.groups, group,
                                   *detail::label_of(group, mesh_of_groups(*state_, mesh_)),
                                   world.options.timeout);
        return made(*state_, mesh_, group);
    }));
}

std::optional<Communicator> Member::split(const Communicator& over, std::optional<int> color, int key,
                                          const GroupOptions& options) const {
    auto group = new_group(state_, options);
    auto& world = *state_->world;
    const auto& given = over.state();
    if (given.world != state_->world)
        throw UsageError(cat("a split over ", given.label->text_with_group(),
                             ", was asked for, which is of another world than this member"));
    const auto use = detail::WorldState::Use(world, "split");
    auto on = Communicator(given.host ? given.host : over.state_);
    constexpr auto none = std::numeric_limits<std::int64_t>::min();
    const auto own = std::array<std::int64_t, 2>{color ? *color : none, key};
    auto parts = std::vector<std::int64_t>(2 * static_cast<std::size_t>(on.size()));
    on.all_gather(own, parts);
    auto all = std::vector<detail::Colored>{};
    for (auto next = parts.begin(); next != parts.end(); next += 2) {
        auto& each = all.emplace_back();
        each.rank = on.world_rank(static_cast<int>(all.size()) - 1);
        if (next[0] != none) each.color = static_cast<int>(next[0]);
        each.key = static_cast<int>(next[1]);
    }
    group.ranks = detail::of_color(color, std::move(all));
    if (group.ranks.empty()) return std::nullopt;
    if (group.name.empty()) group.name = cat("color ", *color, " of ", given.label->axes);
    return Communicator(detail::recording(world, [&] { return made(*state_, mesh_, group); }));
}

std::optional<Communicator> Member::split(std::optional<int> color, int key,
                                          const GroupOptions& options) const {
    auto group = new_group(state_, options);
    auto& world = *state_->world;
    const auto use = detail::WorldState::Use(world, "split");
    return detail::recording(world, [&]() -> std::optional<Communicator> {
        group.ranks = detail::of_color(
            color,
            detail::gather_colors(world.exchange(), {world.rank(), color, key}, world.options.timeout));
        if (group.ranks.empty()) return std::nullopt;
        if (group.name.empty()) group.name = cat("color ", *color, " of the world");
        return Communicator(made(*state_, mesh_, group));
    });
}

int Member::rank_at(const Coordinate& coordinate) const {
    const auto& mesh_entry = mesh_at(state_, mesh_, coordinate);
    const auto mesh_position = mesh_entry.mesh.mesh.rank(coordinate);
    return mesh_entry.mesh.placed ? (*mesh_entry.mesh.placed)[static_cast<std::size_t>(mesh_position)]
                                  : mesh_position;
}

std::string Member::prefix() const {
    for (const auto& mesh_entry : valid(state_).mesh_entries)
        if (mesh_entry.mesh_position &&
            (mesh_ < 0 || &mesh_entry == &state_->mesh_entries[static_cast<std::size_t>(mesh_)]))
            return cat("[", to_string(mesh_entry.mesh.mesh.coord(*mesh_entry.mesh_position)), "]");
    return cat("[rank ", rank(), "]");
}

std::string Member::host() const { return valid(state_).world->host(); }
int Member::local_rank() const { return valid(state_).world->local_rank(); }
int Member::local_size() const { return valid(state_).world->local_size(); }

void Member::suspend(std::span<const std::string_view> names) const {
    run("suspend", detail::suspend, state_, connections_of(state_, mesh_, names, "suspend"));
}
void Member::suspend(const Communicator& on) const {
    run("suspend", detail::suspend, state_, connections_of(state_, &on.state()));
}
void Member::suspend() const { run("suspend", detail::suspend, state_, connections_of(state_, mesh_)); }

void Member::resume(std::span<const std::string_view> names) const {
    run("resume", detail::resume, state_, connections_of(state_, mesh_, names, "resume"));
}
void Member::resume(const Communicator& on) const {
    run("resume", detail::resume, state_, connections_of(state_, &on.state()));
}
void Member::resume() const { run("resume", detail::resume, state_, connections_of(state_, mesh_)); }

Usage Member::usage() const { return detail::usage_of(connections_of(state_, -1)); }
Usage Member::usage(const Communicator& on) const {
    return detail::usage_of(connections_of(state_, &on.state()));
}

int Member::channel_count() const { return static_cast<int>(valid(state_).joining.connections.size()); }

}  // namespace rankmesh
