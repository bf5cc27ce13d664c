// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <rankmesh/core/name.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

using detail::cat;

const AccessorRow& accessor_named(const Framework& framework, std::string_view name) {
    auto known = std::vector<std::string_view>{};
    for (const auto& row : framework.accessors) {
        if (row.name == name) return row;
        known.push_back(row.name);
    }
    throw UsageError(cat(framework.name, " has no ", detail::in_quotes(name), did_you_mean(name, known)));
}

namespace {

/// What the options of a call mean.
struct Asked {
    const AccessorRow& row;
    Given options;
    std::string kind;

    Asked(const State& state, const AccessorRow& asked, const Values& values)
        : row(asked),
          options(row.name, row.options, values, state.groups().world_size()),
          kind(row.choose ? row.choose(Access::given(state.groups()), options) : row.kind) {}

    /// The group; nothing where something else is answered then. Throws Error where the original raises.
    std::optional<GroupPart> group(const State& state) const {
        const auto& groups = state.groups();
        if (kind == "*")
            return GroupPart(Mesh{{"world", groups.world_size()}}.ranks(), 0, 1, groups.world_size());
        if (groups.has(kind))
            if (const auto own = groups.of(kind, state.rank())) return own;
        if (row.without) return std::nullopt;
        if (!groups.has(kind)) static_cast<void>(groups.count(kind));  // throws what the original says
        throw Error(Fault::not_member, cat(Access::missing(groups, kind), " on rank ", state.rank(),
                                           ", which is in none of the groups"));
    }
};

Value answer(const GroupPart& group, Quantity quantity, int rank) {
    const auto own = group.group_rank(rank).value_or(0);
    const auto size = group.size();
    switch (quantity) {
        case Quantity::group:
        case Quantity::ranks:
        case Quantity::matrix:
        case Quantity::mesh:
            return std::vector<int>(group.begin(), group.end());
        case Quantity::rank:
            return own;
        case Quantity::size:
            return size;
        case Quantity::first:
            return group.front();
        case Quantity::last:
            return group.back();
        case Quantity::next:
            return group[(own + 1) % size];
        case Quantity::prev:
            return group[(own + size - 1) % size];
        case Quantity::is_first:
            return own == 0;
        case Quantity::is_last:
            return own == size - 1;
        case Quantity::value:  // these have no group
        case Quantity::action:
        case Quantity::device_mesh:
            break;
        case Quantity::size_and_rank:
            return std::vector{size, own};
    }
    return {};
}

}  // namespace

Object::Object(const Framework& framework)
    : framework_(&framework), object_(framework.own.make ? framework.own.make() : nullptr) {}

void Object::enter(int rank, int world_size) { framework_->own.enter(object_.get(), rank, world_size); }
void Object::initialize(const Given& given) { framework_->own.initialize(object_.get(), given); }
void Object::initialize(const Values& settings, int world_size) {
    initialize(Given(framework_->name, framework_->settings, settings, world_size));
}
void Object::destroy() { framework_->own.destroy(object_.get()); }

Value Object::ask(std::string_view accessor, const Values& options) const {
    return ask(accessor_named(*framework_, accessor), options);
}

Value Object::ask(const AccessorRow& row, const Values& options) const {
    return row.member(object_.get(), Given(row.name, row.options, options, 0));
}

State::State(Groups groups, int rank) : groups_(std::move(groups)), rank_(rank) {
    if (rank < 0 || rank >= groups_.world_size())
        throw Error(Fault::out_of_range, cat("rank ", rank, " of a world of ", groups_.world_size(),
                                             "; ranks are 0..", groups_.world_size() - 1));
    const auto& framework = Access::framework(groups_);
    if (framework.own.of_rank)
        object_ = std::make_shared<const Object>(framework, Access::given(groups_), rank);
    auto object = Object(framework);
    if (!object) return;
    object.enter(rank, groups_.world_size());
    object.initialize(Access::given(groups_));
    object_ = std::make_shared<const Object>(std::move(object));
}

Value State::ask(std::string_view accessor, const Values& values) const {
    const auto& row = accessor_named(Access::framework(groups_), accessor);
    if (row.member) return object_->ask(row, values);
    const auto asked = Asked(*this, row, values);
    if (asked.row.code) return asked.row.code(*this, Access::given(groups_), asked.options);
    if (asked.row.quantity == Quantity::value) return Access::given(groups_).value(asked.row.kind);
    const auto own = asked.group(*this);
    return own ? answer(*own, asked.row.quantity, rank_) : *asked.row.without;
}

std::optional<GroupPart> State::group(std::string_view accessor, const Values& values) const {
    return Asked(*this, accessor_named(Access::framework(groups_), accessor), values).group(*this);
}

std::string State::kind(std::string_view accessor, const Values& values) const {
    return Asked(*this, accessor_named(Access::framework(groups_), accessor), values).kind;
}

std::vector<std::string> State::accessors() const {
    auto names = std::vector<std::string>{};
    for (const auto& row : Access::framework(groups_).accessors) names.push_back(row.name);
    return names;
}

}  // namespace rankmesh::frameworks
