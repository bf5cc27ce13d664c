// SPDX-License-Identifier: Apache-2.0
// The groups that a framework makes of its settings, under its names, without starting a process.
#pragma once

#include <map>
#include <variant>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/plan.hpp>
#include <rankmesh/frameworks/device_mesh.hpp>
#include <rankmesh/frameworks/group_part.hpp>

namespace rankmesh::frameworks {

/// A setting's value or an accessor's answer; nothing is the framework's None.
using Value = std::variant<std::monostate, bool, int, std::string, std::vector<int>, std::vector<std::string>,
                           std::vector<DeviceMesh>>;

/// Settings or options by name.
using Values = std::vector<std::pair<std::string, Value>>;

/// One name as a word, several as words.
inline Value value_of(const NameList& names) {
    return names.is_one() ? Value(names.list().front()) : Value(names.list());
}
/// An optional mesh, setting or option as a value; an empty one is the framework's None.
inline Value value_of(const std::optional<DeviceMesh>& mesh) {
    return mesh ? Value(std::vector{*mesh}) : Value();
}
template <class Type>
Value value_of(const std::optional<Type>& given) {
    return given ? Value(*given) : Value();
}

struct AccessorRow;
struct Framework;
class Given;

/// Every group of a world by kind, each kind in the order in which the original makes its groups.
///
///     frameworks::Groups("vllm", {{"tensor_model_parallel_size", 2}}, 8).group("tp", 1)[0] == 2
class RANKMESH_EXPORT Groups {
public:
    /// Throws UsageError for an unknown framework or setting, and Error where the framework refuses
    /// the settings.
    Groups(std::string_view framework, const Values& settings, int world_size);

    int world_size() const;
    /// The framework's own axes, outermost first.
    const Mesh& mesh() const;
    /// The kinds that these settings give, in the order in which the framework first makes one.
    std::vector<std::string> kinds() const;
    bool has(std::string_view kind) const;
    /// The number of groups of a kind. This and the next two throw Error for one that there is not.
    int count(std::string_view kind) const;
    /// Group `number` of a kind, its members in the framework's order.
    GroupPart group(std::string_view kind, int number) const;
    /// The group of `rank`; nothing where it is in none.
    std::optional<GroupPart> of(std::string_view kind, int rank) const;
    /// True for a kind whose groups have channels of their own, though another kind may have equal ranks.
    bool is_apart(std::string_view kind) const;
    /// True for a kind whose groups are those of another kind, on the host.
    bool is_on_host(std::string_view kind) const;
    /// The plan to join for these groups: kind `tp` is `member["tp"].on("group")`. Plans under names of their
    /// own go into one: `actor.tp`.
    Plan plan(std::string_view name = {}) const;

private:
    friend struct Access;
    struct Made;
    std::shared_ptr<const Made> made_;
};

/// What the framework's accessors answer on one rank.
///
///     const auto state = frameworks::State({"vllm", {{"tensor_model_parallel_size", 2}}, 8}, 3);
///     EXPECT_EQ(state.ask("get_tensor_model_parallel_rank"), frameworks::Value(1));
///
/// `<rankmesh/frameworks/NAME.hpp>` has the same with the original's names and types.
class RANKMESH_EXPORT State {
public:
    /// Of a process that is in no world yet. Throws UsageError for an unknown framework.
    explicit State(std::string_view framework);
    /// Throws Error for a rank outside the world.
    State(Groups groups, int rank);

    /// As one rank of a world from now on. Throws Error for a rank outside it, and if there are
    /// groups.
    void enter(int rank, int world_size);
    /// Makes the groups. Throws as `Groups` does, and Error if there are groups; then nothing
    /// changes.
    void initialize(const Values& settings);
    bool is_initialized() const { return groups_.has_value(); }
    /// Forgets the groups and what was set.
    void destroy();

    /// The groups. Throws Error, in the original's words, if there are none.
    const Groups& groups() const;
    int rank() const { return rank_; }
    int world_size() const { return world_size_; }
    /// Throws UsageError for an unknown accessor or option, and Error where the original raises.
    Value ask(std::string_view accessor, const Values& options = {}) const;
    /// Calls an accessor that sets what others answer, or that makes groups. Returns the kinds that it makes.
    std::vector<std::string> set(std::string_view accessor, const Values& options);
    /// What an accessor of a group gives; nothing where it gives none. Throws as `ask` does.
    std::optional<GroupPart> group(std::string_view accessor, const Values& options = {}) const;
    /// The kind that an accessor asks about. Throws UsageError for an unknown accessor or option.
    std::string kind(std::string_view accessor, const Values& options = {}) const;
    /// The names of the accessors, in the framework's order.
    std::vector<std::string> accessors() const;

private:
    friend struct Access;
    void begin(Groups groups);
    void check_fresh() const;
    std::string kind_of(const AccessorRow& row, const Given& options) const;
    std::optional<GroupPart> group_of(const AccessorRow& row, const Given& options) const;

    const Framework* framework_;
    int rank_ = 0;
    int world_size_ = 0;  // 0: in no world
    std::optional<Groups> groups_;
    bool destroyed_ = false;                                 // there were groups, and there are none
    std::map<std::string, Value, std::less<>> slots_;        // what was set
    std::map<std::string, DeviceMesh, std::less<>> meshes_;  // of a framework that gives some
};

/// The frameworks that are described by rows, by name.
RANKMESH_EXPORT std::vector<std::string> names();

}  // namespace rankmesh::frameworks
