// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/member.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <utility>

#include <rankmesh/core/detail/caller.hpp>

#include "engine/join/group.hpp"
#include "engine/join/member_state.hpp"
#include "engine/join/settings.hpp"
#include "engine/join/suspend.hpp"
#include "engine/roles.hpp"
#include "engine/timeout.hpp"
#include "engine/world_state.hpp"

namespace rankmesh {

using detail::cat;
using Connection = detail::Joining::Connection;
using detail::MemberState;
using detail::MeshEntry;

namespace {

/// The state of a member; throws UsageError where it was moved from.
MemberState& valid(const std::shared_ptr<MemberState>& state) {
    return state ? *state : throw UsageError("this member was moved from");
}

std::string listed(std::span<const std::string_view> names) {
    auto text = std::string{};
    for (auto name : names) detail::append(text, cat(text.empty() ? "" : ",", name));
    return text;
}

/// `"a", "b"`: as the names are written in code.
std::string quoted(std::span<const std::string_view> names) {
    auto text = std::string{};
    for (auto name : names) detail::append(text, cat(text.empty() ? "\"" : ", \"", name, "\""));
    return text;
}

/// `which` is the rest of `member["`.
[[noreturn]] void throw_several(const MemberState& state, std::string_view which) {
    auto names = std::string{};
    for (const auto& mesh_entry : state.mesh_entries)
        detail::append(names, cat(names.empty() ? "'" : ", '", mesh_entry.mesh.name, "'"));
    throw UsageError(cat("the plan has ", state.mesh_entries.size(), " meshes (", names,
                         "); say which, as in member[\"", which));
}

/// The mesh entry that a call is about; throws UsageError if the plan has several meshes.
MeshEntry& mesh_entry_of(const std::shared_ptr<MemberState>& state, int mesh) {
    if (mesh >= 0) return valid(state).mesh_entries[static_cast<std::size_t>(mesh)];
    throw_several(valid(state), cat(state->mesh_entries.front().mesh.name, "\"]"));
}

/// The group entry of the ranks on one host, if that is what the name stands for; null otherwise.
const MeshEntry::GroupEntry* local_group_entry(const MeshEntry& mesh_entry, std::string_view name) {
    for (const auto& group_entry : mesh_entry.group_entries)
        if (group_entry.item.local && group_entry.item.name == name) return &group_entry;
    return nullptr;
}

/// True if a mesh has indices along `name`: its axis, or its local ranks.
bool has_index(const MeshEntry& mesh_entry, std::string_view name) {
    return mesh_entry.mesh.mesh.find(name) || local_group_entry(mesh_entry, name);
}

/// True if a mesh may have a communicator of that name: of an axis, a pick, a set with its own channel or
/// local ranks.
bool has_communicator(const MeshEntry& mesh_entry, std::string_view name) {
    const auto is_named = [&](const MeshEntry::GroupEntry& group_entry) {
        return group_entry.item.name == name;
    };
    return mesh_entry.mesh.mesh.find(name) ||
           (!name.empty() && std::ranges::any_of(mesh_entry.group_entries, is_named));
}

/// The mesh entry that a call with `names` is about; throws UsageError if it lacks what another mesh of the
/// plan `has`, with the call to make there, which `call` writes.
template <class Has, class Call>
MeshEntry& mesh_entry_of(const std::shared_ptr<MemberState>& state, int mesh,
                         std::span<const std::string_view> names, Has has, Call call) {
    const auto has_all = [&](const MeshEntry& mesh_entry) {
        return std::ranges::all_of(names, [&](auto name) { return has(mesh_entry, name); });
    };
    if (state && mesh < 0)
        for (const auto& mesh_entry : state->mesh_entries)
            if (has_all(mesh_entry)) throw_several(*state, cat(mesh_entry.mesh.name, "\"].", call()));
    auto& mesh_entry = mesh_entry_of(state, mesh);
    for (auto name : names) {
        if (has(mesh_entry, name)) continue;
        for (const auto& other : state->mesh_entries)
            if (has(other, name))
                throw UsageError(cat(
                    "mesh '", mesh_entry.mesh.name, "' (", mesh_entry.mesh.text, ") has no ",
                    other.mesh.mesh.find(name) ? "axis '"
                                               : "pick, separate communicator or set of local ranks named '",
                    name, "'; mesh '", other.mesh.name, "' has it",
                    has_all(other) ? cat(": member[\"", other.mesh.name, "\"].", call()) : ""));
        break;  // no mesh has it
    }
    return mesh_entry;
}

/// The same for `call("axis")`, a call about indices along it; `more` is written after the axis.
MeshEntry& place_along(const std::shared_ptr<MemberState>& state, int mesh, std::string_view axis,
                       std::string_view call, std::string_view more = {}) {
    return mesh_entry_of(state, mesh, std::span(&axis, 1), has_index,
                         [&] { return cat(call, "(\"", axis, "\"", more, ")"); });
}

int inside_of(const std::shared_ptr<MemberState>& state, const MeshEntry& mesh_entry) {
    if (!mesh_entry.mesh_position)
        throw UsageError(cat("rank ", state->world->rank(), " is outside mesh ",
                             to_string(mesh_entry.mesh.mesh), "; ask inside() first"));
    return *mesh_entry.mesh_position;
}

/// `; did you mean 'tp'?`, or all names: `; it has dp, tp`.
std::string there_is(std::string_view word, const std::vector<std::string_view>& known) {
    const auto near = did_you_mean(word, known);
    return near.empty() ? cat("; it has ", detail::with_commas(known)) : near;
}

/// The group entry of a set of axes, or of a pick or separate; null where nothing of that kind was declared.
MeshEntry::GroupEntry* group_entry_of(MeshEntry& mesh_entry, std::span<const std::string_view> names) {
    const auto& mesh = mesh_entry.mesh.mesh;
    if (names.size() == 1 && !mesh.find(names[0])) {
        for (auto& group_entry : mesh_entry.group_entries)
            if (!names[0].empty() && group_entry.item.name == names[0]) return &group_entry;
        auto known = std::vector<std::string_view>{};
        for (int a = 0; a < mesh.axis_count(); ++a) known.push_back(mesh.name(AxisId{a}));
        for (const auto& group_entry : mesh_entry.group_entries)
            if (!group_entry.item.name.empty()) known.push_back(group_entry.item.name);
        throw UsageError(cat("mesh ", to_string(mesh),
                             " has no axis, pick, separate communicator or set of local ranks named '",
                             names[0], "'", there_is(names[0], known)));
    }
    auto axes = AxisSet{};
    for (auto name : names) axes.insert(mesh.axis(name));
    for (auto& group_entry : mesh_entry.group_entries)
        if (group_entry.item.axes == axes && group_entry.item.name.empty()) return &group_entry;
    return nullptr;
}

/// The declared group entry; throws UsageError that names the declaration to add.
MeshEntry::GroupEntry& declared(MeshEntry& mesh_entry, std::span<const std::string_view> names) {
    if (auto* group_entry = group_entry_of(mesh_entry, names)) return *group_entry;
    const auto& mesh = mesh_entry.mesh.mesh;
    if (names.empty())
        throw UsageError(cat("no axis is given; name at least one axis of mesh ", to_string(mesh),
                             ", such as \"", mesh.name(AxisId{0}), "\""));
    if (names.size() == 1) {
        const auto axes = detail::in_python("axes", ".axes");
        throw UsageError(cat("axis '", names[0], "' of mesh ", to_string(mesh), " was left out of ", axes,
                             "; add it there, or leave ", axes, " away"));
    }
    throw UsageError(cat("'", listed(names), "' of mesh ", to_string(mesh), " was not declared; add ",
                         detail::in_python("over=[(", ".over = {{"), quoted(names),
                         detail::in_python(")]", "}}"), " to the declaration"));
}

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
                     cat("made ", label->text(), ", group ", to_string(label->ranks)));
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

/// A call of Member that changes what connections hold.
struct RestCall {
    const char* name;
    void (*change)(detail::Joining&, Connection&);
    void (*check)(std::span<Connection* const>) = nullptr;  // before any of them
};
constexpr auto suspending = RestCall{"suspend", detail::suspend, detail::check_idle};
constexpr auto resuming = RestCall{"resume", detail::resume};

void run(const RestCall& call, const std::shared_ptr<MemberState>& state,
         const std::vector<Connection*>& connections) {
    const auto use = detail::WorldState::Use(*state->world, call.name);
    detail::recording(*state->world, [&] {
        if (call.check) call.check(connections);
        for (auto* each : connections) call.change(state->joining, *each);
    });
}

/// The same for a declared set.
void run(const RestCall& call, const std::shared_ptr<MemberState>& state, int mesh,
         std::span<const std::string_view> names) {
    auto& mesh_entry = mesh_entry_of(state, mesh, names, has_communicator,
                                     [&] { return cat(call.name, "(", quoted(names), ")"); });
    run(call, state, connections_of(state, declared(mesh_entry, names).state.get()));
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
    state_->world->log(cat("rank ", state_->world->rank()), "left its member by an exception");
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

const Mesh& Member::mesh() const { return mesh_entry_of(state_, mesh_).mesh.mesh; }
bool Member::inside() const { return mesh_entry_of(state_, mesh_).mesh_position.has_value(); }

Coordinate Member::coord() const {
    const auto& mesh_entry = mesh_entry_of(state_, mesh_);
    return mesh_entry.mesh.mesh.coord(inside_of(state_, mesh_entry));
}

int Member::at(std::string_view axis) const {
    const auto& mesh_entry = place_along(state_, mesh_, axis, "at");
    if (const auto* group_entry = local_group_entry(mesh_entry, axis); group_entry && inside())
        return group_entry->group_rank;
    return mesh_entry.mesh.mesh.index(inside_of(state_, mesh_entry), axis);
}

bool Member::is_last(std::string_view axis) const {
    const auto* group_entry = local_group_entry(place_along(state_, mesh_, axis, "is_last"), axis);
    return at(axis) == (group_entry && inside() ? group_entry->label->ranks.size() : mesh().size(axis)) - 1;
}

std::optional<int> Member::neighbor(std::string_view axis, Int by, Edge edge) const {
    const auto& mesh_entry = place_along(state_, mesh_, axis, "neighbor", ", ...");
    if (const auto* group_entry = local_group_entry(mesh_entry, axis); group_entry && inside()) {
        const auto& ranks = group_entry->label->ranks;
        const auto next = detail::shifted(group_entry->group_rank, by, ranks.size(), edge);
        return next < 0 ? std::nullopt : std::optional(ranks[next]);
    }
    const auto found = mesh_entry.mesh.mesh.neighbor(inside_of(state_, mesh_entry), axis, by, edge);
    if (!found || !mesh_entry.mesh.placed) return found;
    return (*mesh_entry.mesh.placed)[static_cast<std::size_t>(*found)];
}

Communicator Member::on(std::span<const std::string_view> names) const {
    auto& mesh_entry =
        mesh_entry_of(state_, mesh_, names, has_communicator, [&] { return cat("on(", quoted(names), ")"); });
    const auto& group_entry = declared(mesh_entry, names);
    const auto mesh_position = inside_of(state_, mesh_entry);
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
    auto& mesh_entry = mesh_entry_of(state_, mesh_, names, has_communicator,
                                     [&] { return cat("find(", quoted(names), ")"); });
    const auto* group_entry = group_entry_of(mesh_entry, names);
    if (!group_entry || !group_entry->state) return std::nullopt;
    return Communicator(group_entry->state);
}

void Member::prepare(std::span<const std::string_view> names) const {
    auto& mesh_entry = mesh_entry_of(state_, mesh_, names, has_communicator,
                                     [&] { return cat("prepare(", quoted(names), ")"); });
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
        throw UsageError(cat("a split over ", given.label->text(), ", group ", to_string(given.label->ranks),
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
    auto names = std::vector<std::string_view>{};
    for (int i = 0; i < coordinate.size(); ++i) names.push_back(coordinate.name(i));
    const auto has = [](const MeshEntry& mesh_entry, std::string_view name) {
        return mesh_entry.mesh.mesh.find(name).has_value();
    };
    const auto& mesh_entry = mesh_entry_of(state_, mesh_, names, has, [] { return "rank_at(...)"; });
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

void Member::suspend(std::span<const std::string_view> names) const { run(suspending, state_, mesh_, names); }
void Member::suspend(const Communicator& on) const {
    run(suspending, state_, connections_of(state_, &on.state()));
}
void Member::suspend() const { run(suspending, state_, connections_of(state_, mesh_)); }

void Member::resume(std::span<const std::string_view> names) const { run(resuming, state_, mesh_, names); }
void Member::resume(const Communicator& on) const {
    run(resuming, state_, connections_of(state_, &on.state()));
}
void Member::resume() const { run(resuming, state_, connections_of(state_, mesh_)); }

Usage Member::usage() const { return detail::usage_of(connections_of(state_, -1)); }
Usage Member::usage(const Communicator& on) const {
    return detail::usage_of(connections_of(state_, &on.state()));
}

int Member::channel_count() const { return static_cast<int>(valid(state_).joining.connections.size()); }

}  // namespace rankmesh
