// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/world.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/member_state.hpp"

namespace rankmesh {

World::World(std::shared_ptr<detail::WorldState> state)
    : state_(std::move(state)), exceptions_(std::uncaught_exceptions()) {}
World::World(World&& other) noexcept
    : state_(std::move(other.state_)), exceptions_(std::min(other.exceptions_, std::uncaught_exceptions())) {}

World& World::operator=(World&& other) noexcept {
    auto taken = std::move(other);
    auto old = std::move(*this);  // leaves as a destroyed world does
    state_ = std::move(taken.state_);
    exceptions_ = taken.exceptions_;
    return *this;
}

World::~World() {
    if (state_ && state_->size() > 1 && std::uncaught_exceptions() > exceptions_)
        state_->leave(
            detail::cat("rank ", state_->rank(), " of ", state_->size(), " left its world by an exception"));
}

namespace {

detail::WorldState& checked(const std::shared_ptr<detail::WorldState>& state) {
    if (!state) throw Misuse("this world was moved from");
    return *state;
}

}  // namespace

int World::rank() const { return checked(state_).rank(); }
int World::size() const { return checked(state_).size(); }
std::string World::engine() const { return checked(state_).engine(); }

Member World::join(const Plan& plan) { return join(plan, std::nullopt); }

Member World::join(const MeshSpec& mesh, const Declaration& options) {
    auto declaration = options;
    declaration.mesh = mesh;
    auto wrong = std::optional<Misuse>{};
    if (options.mesh != Declaration{}.mesh)
        wrong = Misuse(detail::cat("the mesh was given twice, as ", to_string(mesh), " and as ",
                                   to_string(options.mesh)));
    return join(Plan{declaration}, wrong);
}

Member World::join(const Plan& plan, std::optional<Misuse> wrong) {
    auto& world = checked(state_);
    const auto use = detail::WorldState::Use(world);
    auto member = std::make_shared<detail::MemberState>();
    member->world = state_;
    member->key = detail::cat("join ", ++world.joins);
    member->places = detail::join(plan, std::move(wrong), world.exchange(), member->key,
                                  world.options.deadline, state_, member->channels);
    return Member(member, member->places.size() == 1 ? 0 : -1, true);
}

}  // namespace rankmesh
