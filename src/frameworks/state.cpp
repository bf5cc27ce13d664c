// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/name.hpp>
#include <rankmesh/core/ranks.hpp>

#include "frameworks/kinds.hpp"

namespace rankmesh::frameworks {

const AccessorRow& accessor_named(const Framework& framework, std::string_view name) {
    for (const auto& row : framework.accessors)
        if (row.name == name) return row;
    throw UsageError(cat(framework.name, " has no ", detail::in_quotes(name),
                         did_you_mean(name, known_names(framework.accessors))));
}

namespace {

const auto* const no_groups = "the groups are not initialized";
constexpr auto checked = "check_initialized";  // an option: whether a group that is missing is an error

Value answer(const GroupPart& group, Quantity quantity, int rank) {
    const auto own = group.group_rank(rank).value_or(0);
    const auto size = group.size();
    if (quantity == Quantity::rank) return own;
    if (quantity == Quantity::size) return size;
    if (quantity == Quantity::first) return group.front();
    if (quantity == Quantity::last) return group.back();
    if (quantity == Quantity::next) return group[(own + 1) % size];
    if (quantity == Quantity::prev) return group[(own + size - 1) % size];
    if (quantity == Quantity::is_first) return own == 0;
    if (quantity == Quantity::is_last) return own == size - 1;
    if (quantity == Quantity::size_and_rank) return std::vector{size, own};
    return std::vector<int>(group.begin(), group.end());
}

DeviceMesh device_mesh(const Mesh& mesh, int rank) {
    auto shape = std::vector<int>{};
    auto names = std::vector<std::string>{};
    for (int a = 0; a < mesh.axis_count(); ++a) {
        shape.push_back(mesh.size(AxisId{a}));
        names.emplace_back(mesh.name(AxisId{a}));
    }
    return init_device_mesh(shape, names, rank, mesh.size());
}

/// The kind whose groups an initialised state has.
std::string_view asserted(const Framework& framework) {
    if (!framework.asserts.empty() || framework.kinds.empty()) return framework.asserts;
    return framework.kinds.front().name;
}

/// What the original says where there are no groups of that kind.
std::string_view missing_of(const Framework& framework, std::string_view kind) {
    const auto row = std::ranges::find(framework.kinds, kind, &KindRow::name);
    return row == framework.kinds.end() || row->missing.empty() ? no_groups : std::string_view(row->missing);
}

}  // namespace

State::State(std::string_view framework) : framework_(&framework_named(framework)) {}

State::State(Groups groups, int rank) : framework_(&Access::framework(groups)) {
    enter(rank, groups.world_size());
    begin(std::move(groups));
}

void State::enter(int rank, int world_size) {
    check_rank(rank, world_size);
    check_fresh();
    rank_ = rank;
    world_size_ = world_size;
    if (framework_->settings.empty()) begin({framework_->name, {}, world_size});  // its accessors add groups
}

void State::initialize(const Values& settings) {
    if (world_size_ == 0)
        throw Error(Fault::not_initialised,
                    "this process is in no world; give the rank and the size of the world");
    auto groups = Groups(framework_->name, settings, world_size_);
    check_fresh();
    begin(std::move(groups));
}

void State::check_fresh() const {
    if (!groups_) return;
    // A module with a state of its own asks for a kind.
    auto text = std::string(framework_->state_class.empty() ? std::string_view()
                                                            : missing_of(*framework_, asserted(*framework_)));
    const auto verb = text.find(" is not ");
    throw Error(Fault::exists, verb == std::string::npos
                                   ? cat("the groups of ", framework_->name, " are already initialized")
                                   : text.replace(verb, 8, " is already "));
}

void State::begin(Groups groups) {
    const auto& given = Access::given(groups);
    if (framework_->slots)
        for (auto& [name, value] : framework_->slots(given)) slots_[name] = std::move(value);
    if (std::ranges::find(framework_->accessors, Quantity::device_mesh, &AccessorRow::quantity) !=
        framework_->accessors.end())
        for (const auto& [name, mesh] : Access::meshes(groups))
            meshes_.insert_or_assign(name, device_mesh(mesh, rank_));
    groups_ = std::move(groups);
    destroyed_ = false;
}

void State::destroy() {
    destroyed_ = destroyed_ || groups_;
    groups_.reset();
    meshes_.clear();
    const auto kept = words_of(framework_->kept_slots);
    std::erase_if(slots_, [&](const auto& slot) { return !holds(kept, slot.first); });
}

const Groups& State::groups() const {
    if (groups_) return *groups_;
    throw Error(Fault::not_initialised, std::string(missing_of(*framework_, asserted(*framework_))));
}

std::vector<std::string> State::set(std::string_view accessor, const Values& values) {
    const auto& row = accessor_named(*framework_, accessor);
    if (row.quantity != Quantity::action)
        throw UsageError(cat(accessor, " of ", framework_->name, " sets nothing; ask for its answer"));
    const auto options = Given(row.name, row.options, values, world_size_);
    auto kinds = std::vector<std::string>{};
    if (row.adds) {
        groups_ = Access::with(groups(), row, options, kinds);
        return kinds;
    }
    const auto& value = options.at(0);
    if (const auto* number = std::get_if<int>(&value); number && row.is_size) {
        auto words = cat("the ", row.slot);
        std::ranges::replace(words, '_', ' ');
        check_size(words, *number);
    }
    if (std::holds_alternative<std::monostate>(value))
        slots_.erase(row.slot);
    else if (!row.slot.empty())
        slots_[row.slot] = value;
    return kinds;
}

Value State::ask(std::string_view accessor, const Values& values) const {
    const auto& row = accessor_named(*framework_, accessor);
    const auto options = Given(row.name, row.options, values, world_size_);
    if (row.quantity == Quantity::action)
        throw UsageError(cat(accessor, " of ", framework_->name, " sets something; call State::set"));
    if (const auto* set = Access::slot(*this, row.slot)) return *set;
    if (row.no_world && world_size_ == 0) return *row.no_world;
    if (row.code) return row.code(*this, options);
    if (row.quantity == Quantity::value && !row.slot.empty()) return {};
    if (row.quantity == Quantity::value && groups_ && !row.kind.empty())
        return row.kind.find('>') == row.kind.npos ? Access::given(*groups_).value(row.kind)
                                                   : Value(Access::given(*groups_).holds(row.kind));
    const auto own = group_of(row, options);
    if (!own) return row.without.value_or(Value());
    if (row.quantity == Quantity::first || row.quantity == Quantity::rank)
        if (const auto kind = kind_of(row, options);
            kind != "*" && Access::made(*groups_).at(kind).row->rising)
            return row.quantity == Quantity::first ? std::ranges::min(*own)
                                                   : static_cast<int>(std::ranges::count_if(
                                                         *own, [&](int other) { return other < rank_; }));
    return answer(*own, row.quantity, rank_);
}

std::string State::kind_of(const AccessorRow& row, const Given& options) const {
    const auto kinds = row.kinds ? row.kinds(*this, options) : kinds_in(row.among, options);
    if (!kinds.empty()) {
        const auto has = [&](std::string_view kind) {
            return kind == "*" || (groups_ && groups_->has(kind));
        };
        const auto found = std::ranges::find_if(kinds, has);
        return std::string(found == kinds.end() ? kinds.front() : *found);
    }
    return row.choose && groups_ ? row.choose(Access::given(*groups_), options) : row.kind;
}

/// The group that a row is about; nothing where it says what is answered then.
std::optional<GroupPart> State::group_of(const AccessorRow& row, const Given& options) const {
    const auto kind = kind_of(row, options);
    if (kind == "*" && groups_) return GroupPart(Mesh{{"world", world_size_}}.ranks(), 0, 1, world_size_);
    const auto has = groups_ && groups_->has(kind);
    if (has)
        if (const auto own =
                row.listed ? Access::made(*groups_).at(kind).listed_of(rank_) : groups_->of(kind, rank_))
            return own;
    if (row.without || (options.has(checked) && !options.flag(checked))) return std::nullopt;
    const auto text = row.missing.empty() ? missing_of(*framework_, kind) : std::string_view(row.missing);
    if (row.listed && destroyed_)
        throw Refusal(Fault::not_initialised, "stale", text,
                      "; its ranks from before destroy_model_parallel are stale");
    if (!groups_) throw Error(Fault::not_initialised, std::string(text));
    if (!has && !row.missing.empty()) throw Error(Fault::not_initialised, row.missing);
    if (!has) static_cast<void>(groups_->count(kind));  // throws what the original says
    const auto line = Access::made(*groups_).at(kind).listed_of(rank_);
    throw Error(
        Fault::not_member, text, " on rank ", rank_,
        line ? cat("; its members here are ", ranks_to_string(std::vector<int>(line->begin(), line->end())))
             : std::string(", which is in none of the groups"));
}

std::optional<GroupPart> State::group(std::string_view accessor, const Values& values) const {
    const auto& row = accessor_named(*framework_, accessor);
    return group_of(row, Given(row.name, row.options, values, world_size_));
}

std::string State::kind(std::string_view accessor, const Values& values) const {
    const auto& row = accessor_named(*framework_, accessor);
    return kind_of(row, Given(row.name, row.options, values, world_size_));
}

std::vector<std::string> State::accessors() const { return known_names<std::string>(framework_->accessors); }

const DeviceMesh& Access::device_mesh(const State& state, std::string_view mesh) {
    static_cast<void>(state.groups());  // throws what the original says
    return state.meshes_.find(mesh)->second;
}
const Value* Access::slot(const State& state, std::string_view name) {
    const auto found = state.slots_.find(name);
    return found == state.slots_.end() ? nullptr : &found->second;
}

}  // namespace rankmesh::frameworks
