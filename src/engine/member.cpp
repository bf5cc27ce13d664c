// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/member.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/member_state.hpp"
#include "engine/world_state.hpp"

namespace rankmesh {

using detail::cat;
using detail::MemberState;
using detail::Place;

namespace {

std::string listed(std::span<const std::string_view> names) {
    auto text = std::string{};
    for (auto name : names) detail::append(text, cat(text.empty() ? "" : ",", name));
    return text;
}

/// `"a", "b"`: as the names stand in code.
std::string quoted(std::span<const std::string_view> names) {
    auto text = std::string{};
    for (auto name : names) detail::append(text, cat(text.empty() ? "\"" : ", \"", name, "\""));
    return text;
}

/// The place that a question is about; throws Misuse where the plan has several.
Place& place_of(const std::shared_ptr<MemberState>& state, int mesh) {
    if (!state) throw Misuse("this member was moved from");
    if (mesh >= 0) return state->places[static_cast<std::size_t>(mesh)];
    auto names = std::string{};
    for (const auto& place : state->places)
        detail::append(names, cat(names.empty() ? "'" : ", '", place.mesh.name, "'"));
    throw Misuse(cat("the plan has ", state->places.size(), " meshes (", names,
                     "); say which, as in member[\"", state->places.front().mesh.name, "\"]"));
}

int inside_of(const std::shared_ptr<MemberState>& state, const Place& place) {
    if (!place.position)
        throw Misuse(cat("rank ", state->world->rank(), " is outside mesh ", to_string(place.mesh.mesh),
                         "; ask inside() first"));
    return *place.position;
}

/// The seat of a set of axes, or of a pick or separate; null where nothing of that kind was declared.
Place::Seat* seat_of(Place& place, std::span<const std::string_view> names) {
    const auto& mesh = place.mesh.mesh;
    if (names.size() == 1 && !mesh.find(names[0])) {
        for (auto& seat : place.seats)
            if (seat.item.name == names[0]) return &seat;
        auto known = std::vector<std::string_view>{};
        for (int a = 0; a < mesh.axis_count(); ++a) known.push_back(mesh.name(AxisId{a}));
        for (const auto& seat : place.seats)
            if (!seat.item.name.empty()) known.push_back(seat.item.name);
        throw Misuse(cat("mesh ", to_string(mesh), " has no axis, pick, separate channel or local ranks '",
                         names[0], "'", did_you_mean(names[0], known)));
    }
    auto axes = AxisSet{};
    for (auto name : names) axes.insert(mesh.axis(name));
    for (auto& seat : place.seats)
        if (seat.item.axes == axes && seat.item.name.empty()) return &seat;
    return nullptr;
}

/// The seat of the ranks on one host, if that is what the name stands for; null otherwise.
const Place::Seat* local_seat(const Place& place, std::string_view name) {
    for (const auto& seat : place.seats)
        if (seat.item.local && seat.item.name == name) return &seat;
    return nullptr;
}

/// The seat, declared; throws Misuse that names the declaration to add.
Place::Seat& declared(Place& place, std::span<const std::string_view> names) {
    if (auto* seat = seat_of(place, names)) return *seat;
    if (names.size() == 1)
        throw Misuse(cat("axis '", names[0], "' of mesh ", to_string(place.mesh.mesh),
                         " was left out of .axes; add it "
                         "there, or leave .axes away"));
    throw Misuse(cat("'", listed(names), "' of mesh ", to_string(place.mesh.mesh),
                     " was not declared; add .over = {{", quoted(names), "}} to the declaration"));
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
    // A member from operator[] is a view: it comes and goes with every call, also with one that throws.
    if (!state_ || !owner_ || std::uncaught_exceptions() <= exceptions_) return;
    state_->world->log(cat("rank ", state_->world->rank()), "left its member by an exception");
    // The host's first: they tell peers who it is, devices only that somebody has gone.
    for (const auto* channels : {&state_->joining.channels, &state_->joining.on_device})
        for (const auto& channel : *channels) channel->leave();
    // Peers may wait in prepare, too, where there is no channel yet to tell them by.
    const auto deferred = [](const Place& place) {
        return std::ranges::any_of(place.seats, [](const auto& seat) { return seat.label && !seat.line; });
    };
    if (std::ranges::any_of(state_->places, deferred))
        state_->world->leave(cat("rank ", state_->world->rank(), " left by an exception"));
}

Member Member::operator[](std::string_view mesh) const& { return Member(state_, index_of(mesh), false); }

Member Member::operator[](std::string_view mesh) && {
    const auto index = index_of(mesh);
    return Member(std::move(state_), index, owner_);
}

int Member::index_of(std::string_view mesh) const {
    if (!state_) throw Misuse("this member was moved from");
    auto known = std::vector<std::string_view>{};
    for (std::size_t i = 0; i < state_->places.size(); ++i) {
        if (state_->places[i].mesh.name == mesh) return static_cast<int>(i);
        known.push_back(state_->places[i].mesh.name);
    }
    throw Misuse(cat("the plan has no mesh '", mesh, "'", did_you_mean(mesh, known)));
}

std::vector<std::string> Member::meshes() const {
    if (!state_) throw Misuse("this member was moved from");
    auto names = std::vector<std::string>{};
    for (const auto& place : state_->places) names.push_back(place.mesh.name);
    return names;
}

int Member::rank() const {
    if (!state_) throw Misuse("this member was moved from");
    return state_->world->rank();
}

const Mesh& Member::mesh() const { return place_of(state_, mesh_).mesh.mesh; }
bool Member::inside() const { return place_of(state_, mesh_).position.has_value(); }

Coordinate Member::coord() const {
    const auto& place = place_of(state_, mesh_);
    return place.mesh.mesh.coord(inside_of(state_, place));
}

int Member::at(std::string_view axis) const {
    const auto& place = place_of(state_, mesh_);
    if (const auto* seat = local_seat(place, axis); seat && inside()) return seat->position;
    return place.mesh.mesh.index(inside_of(state_, place), axis);
}

bool Member::is_last(std::string_view axis) const {
    const auto* seat = local_seat(place_of(state_, mesh_), axis);
    return at(axis) == (seat && inside() ? seat->label->ranks.size() : mesh().size(axis)) - 1;
}

std::optional<int> Member::neighbor(std::string_view axis, int by, Edge edge) const {
    const auto& place = place_of(state_, mesh_);
    if (const auto* seat = local_seat(place, axis); seat && inside()) {
        const auto& ranks = seat->label->ranks;
        const auto next = detail::shifted(seat->position, by, ranks.size(), edge);
        return next < 0 ? std::nullopt : std::optional(ranks[next]);
    }
    const auto found = place.mesh.mesh.neighbor(inside_of(state_, place), axis, by, edge);
    if (!found || !place.mesh.placed) return found;
    return (*place.mesh.placed)[static_cast<std::size_t>(*found)];
}

Communicator Member::on(std::span<const std::string_view> names) const {
    auto& place = place_of(state_, mesh_);
    const auto& seat = declared(place, names);
    const auto position = inside_of(state_, place);
    if (!seat.label) {
        const auto group = place.mesh.mesh.group(position, seat.item.axes).pick(seat.item.picked);
        throw Misuse(cat("rank ", rank(), " is not in pick '", seat.item.name, "', which is ",
                         to_string(detail::Ranks{group, place.mesh.placed}), " here; use find(\"",
                         seat.item.name, "\")"));
    }
    if (!seat.line)
        throw Misuse(cat(seat.label->text(),
                         " is lazy and not connected; every rank of the mesh calls prepare(", quoted(names),
                         ") first"));
    return Communicator(seat.line);
}

std::optional<Communicator> Member::find(std::span<const std::string_view> names) const {
    const auto* seat = seat_of(place_of(state_, mesh_), names);
    if (!seat || !seat->line) return std::nullopt;
    return Communicator(seat->line);
}

void Member::prepare(std::span<const std::string_view> names) const {
    auto& place = place_of(state_, mesh_);
    auto& seat = declared(place, names);
    if (!seat.label || seat.line) return;
    const auto use = detail::WorldState::Use(*state_->world);
    detail::connect_later(place, seat, state_->joining, state_->places);
    state_->world->log(seat.label->member, cat("prepared ", seat.label->text()));
}

int Member::rank_at(const Coordinate& coordinate) const {
    const auto& place = place_of(state_, mesh_);
    const auto position = place.mesh.mesh.rank(coordinate);
    return place.mesh.placed ? (*place.mesh.placed)[static_cast<std::size_t>(position)] : position;
}

std::string Member::prefix() const {
    if (!state_) throw Misuse("this member was moved from");
    for (const auto& place : state_->places)
        if (place.position && (mesh_ < 0 || &place == &state_->places[static_cast<std::size_t>(mesh_)]))
            return cat("[", to_string(place.mesh.mesh.coord(*place.position)), "]");
    return cat("[rank ", rank(), "]");
}

std::string Member::host() const {
    return state_ ? state_->world->host() : throw Misuse("this member was moved from");
}
int Member::local_rank() const {
    return state_ ? state_->world->local_rank() : throw Misuse("this member was moved from");
}
int Member::local_size() const {
    return state_ ? state_->world->local_size() : throw Misuse("this member was moved from");
}

int Member::channel_count() const {
    if (!state_) throw Misuse("this member was moved from");
    return static_cast<int>(state_->joining.channels.size());
}

}  // namespace rankmesh
