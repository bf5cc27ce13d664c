// SPDX-License-Identifier: Apache-2.0
// How a framework is described: rows that can be held against its own source.
#pragma once

#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/groups.hpp>

#include "frameworks/names.hpp"

namespace rankmesh::frameworks {

/// What a setting, an option or an answer may be. Of a plan, a word or a table, only whether it is given
/// matters; `names` are a word or a list of words.
enum class Type : std::uint8_t {
    number,
    maybe_number,
    flag,
    word,
    numbers,
    maybe_word,
    plan,
    words,
    names,
    mesh
};

/// The default of a setting that has none of its own: 1, false, else nothing.
inline Value default_of(Type type) {
    return type == Type::number ? Value(1) : type == Type::flag ? Value(false) : Value();
}

/// A setting of a framework, or an option of an accessor.
struct Setting {
    std::string name;
    Type type = Type::number;
    std::string doc = {};                ///< one sentence
    Value otherwise = default_of(type);  ///< its default; a number without one must be given
    std::string axis = {};  ///< the axis whose size it is, or the axes, by spaces, of which it is the product
    /// Its names on a command line, by spaces, if they differ; the first is written. `dp_config.name` is in a
    /// table of its own.
    std::string flag = {};
    bool apart = false;  ///< not an argument of the original's function; of an option: given by its name only
    bool needed = false;           ///< an argument without a default, though a configuration may leave it out
    bool only_configured = false;  ///< of a configuration, and of no function
    std::string extra = {};        ///< what it says beside where ranks stand: `pipeline schedule`
    /// Its words, with what they are called as an extra; a word that is none of them is refused.
    std::vector<std::pair<std::string, std::string>> words = {};
};

/// Calls `use` with each word of a row, by spaces.
template <class Use>
void each_word(std::string_view text, Use use) {
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find(' ', begin), text.size());
        if (end > begin) use(text.substr(begin, end - begin));
        begin = end + 1;
    }
}
/// The words of a row, by spaces.
std::vector<std::string_view> words_of(std::string_view text);

/// The size of an axis, 1 where there is none.
inline int size_of(const Mesh& mesh, std::string_view axis) { return mesh.find(axis) ? mesh.size(axis) : 1; }

/// Throws Refusal for a size below 1.
inline void check_size(std::string_view name, int size) {
    if (size < 1)
        throw Refusal(Fault::sizes, "sizes-below-one", cat(name, " is ", size, "; every size is 1 or more"));
}

/// The settings as they were given, with the defaults of the others and what follows from them.
class RANKMESH_EXPORT Given {
public:
    /// Throws UsageError that names `what` for a value that is not among the known, or of another type. The
    /// known ones are rows, which stay.
    Given(std::string_view what, const std::vector<Setting>& known, const Values& values, int world_size);

    int world_size() const { return world_size_; }
    /// A number; `otherwise` for None.
    int number(std::string_view name, int otherwise = 0) const;
    bool flag(std::string_view name) const;
    bool is_none(std::string_view name) const;
    const std::vector<int>& numbers(std::string_view name) const;
    const std::string& word(std::string_view name) const;
    const Value& value(std::string_view name) const;
    /// The value of setting number `i`.
    const Value& at(std::size_t i) const { return values_[i]; }
    bool has(std::string_view name) const;
    /// True if a condition on numbers and flags holds: `dcp_size > 1 and is_moe and not enable_eplb`; other
    /// operators are `==`, `!=` and `<=`.
    bool holds(std::string_view condition) const;
    /// Sets what follows from the settings, for rows that name it, in the place of a setting of that name.
    void derive(std::string_view name, Value value);

private:
    const Value* find(std::string_view name) const;

    const std::vector<Setting>* known_;
    std::vector<Value> values_;  // of the known
    Values derived_;
    int world_size_;
};

/// The kinds whose conditions hold, in order: of `tp if dp_size == 1, dp`.
std::vector<std::string_view> kinds_in(std::string_view text, const Given& given);

/// A value among those given; null where it is not given.
inline const Value* find_in(const Values& values, std::string_view name) {
    const auto found = std::ranges::find(values, name, &Values::value_type::first);
    return found == values.end() ? nullptr : &found->second;
}
/// A size among those given.
inline int size_in(const Values& values, std::string_view name, int otherwise = 1) {
    const auto* found = find_in(values, name);
    return found ? std::get<int>(*found) : otherwise;
}
/// Sets a value in place of the one given.
inline void set_in(Values& values, std::string_view name, Value to) {
    std::erase_if(values, [&](const auto& each) { return each.first == name; });
    if (to != Value()) values.emplace_back(name, std::move(to));
}

/// A mesh of a framework: axes outermost first. The size of an axis is what was derived under its name, or
/// the setting whose axis it is; of at most one axis neither is known, and it takes the rest of the world.
struct MeshRow {
    std::string name;
    std::string axes;
};

/// A kind of groups.
///
/// `groups` says how the ranks are listed and cut: all axes of the mesh in the order in which the framework
/// lists them, outermost first, then where a group begins: `pp dp | tp` has a group for each pp and dp, of
/// its tp ranks; `dp tp pcp / dcp_size` has groups of dcp_size consecutive ranks of that list, and `tp | dp
/// cp / 4` of 4 ranks of each group on dp and cp, whose last may be shorter. `dp tp / 4 2` has
/// groups of every second rank. `experts: pp | ep` is of the mesh `experts`.
///
/// In `* | dp cp`, `*` stands for all axes that the row does not name, in the mesh's order. The axes of a
/// group that are named after `* |` are in the mesh's order too. The mesh may lack axes of a row with `*`.
struct KindRow {
    std::string name;
    std::string groups;
    std::string missing = {};  ///< what the original says where there is none
    std::string when = {};     ///< a condition for `Given::holds`; empty: always
    /// The kind whose groups it has: `tp if dp_size == 1`, several with `, ` between; empty: it has its own.
    std::string same = {};
    std::string at =
        {};  ///< only the members at these positions, by spaces, or at those of that list of numbers
    bool apart = false;      ///< with a channel of its own
    std::string shown = {};  ///< what `--as` calls it, where that is not its name
    /// The groups of the kind before it with the same `groups`, on the host: no plan has them, nor does
    /// `--as`.
    bool on_host = false;
    std::string brief = {};  ///< its name in a plan, where that is not its name
    bool sorted = false;     ///< made of ranks in the order listed, though a group has them ascending
    bool rising = false;     ///< a communicator has the ranks of a group in rising order, as torch sorts them
};

/// What an accessor adds to groups that are there: each replaces the one of its name.
struct Additions {
    std::vector<std::pair<std::string, Mesh>> meshes = {};
    std::vector<KindRow> kinds = {};
};

/// The kinds of some settings: rows of the framework, and those that `extend` adds.
struct Kinds {
    std::vector<const KindRow*> rows = {};
    std::vector<std::shared_ptr<const KindRow>> owned = {};

    void add(KindRow row) {
        rows.push_back(owned.emplace_back(std::make_shared<const KindRow>(std::move(row))).get());
    }
};

enum class Quantity : std::uint8_t {
    group,
    group_list,  ///< groups, whose kinds `code` answers
    ranks,
    rank,
    size,
    first,
    last,
    next,
    prev,
    is_first,
    is_last,
    size_and_rank,
    matrix,      ///< all ranks in the shape of the framework's first mesh
    mesh,        ///< the framework's first mesh
    value,       ///< the value of the setting, or of the derived quantity, that `kind` names; or a condition
    action,      ///< sets something, and answers nothing
    device_mesh  ///< a mesh that the framework builds; several meshes where the type is `words`
};

/// A function or attribute of the framework that answers about one kind of groups.
struct AccessorRow {
    std::string name;
    std::string kind = {};  ///< `*`: all ranks; empty where the options choose
    Quantity quantity = Quantity::group;
    std::string doc = {};  ///< one sentence
    std::vector<Setting> options = {};
    /// The kind that the options mean, where they choose.
    std::string (*choose)(const Given&, const Given& options) = nullptr;
    /// The answer where there is no such group; if it is unset, the original raises, but for an option
    /// `check_initialized` that is false.
    std::optional<Value> without = {};
    /// What no row can say. It asks the state, which throws what the original says before there are groups.
    Value (*code)(const State&, const Given& options) = nullptr;
    Type type = Type::number;  ///< of a value, or `words` for several meshes
    std::string raises = {};   ///< the Python type of what it raises, where that is another
    bool called = false;       ///< a method also without options, in a class of attributes
    std::string missing = {};  ///< what the original says without a group, where the kind says another text
    /// The kinds that the options mean, of which the first that is there is asked; throws Error for options
    /// that the original refuses.
    std::vector<std::string_view> (*kinds)(const State&, const Given& options) = nullptr;
    std::string among = {};              ///< the same as a text for `kinds_in`; `*` is always there
    std::optional<Value> no_world = {};  ///< the answer of a process that is in no world
    /// Every rank has it, also one that is not a member, as the original keeps it in a list, which is stale
    /// after the groups are destroyed.
    bool listed = false;
    /// Of an action: the slot that it sets; of others: the slot whose value is the answer once it is set.
    std::string slot = {};
    bool is_size = false;  ///< of an action: the number that it takes is 1 or more
    /// Of an action: the kinds that it makes; each is from then on a derived flag. Throws Error for options
    /// that the original refuses.
    void (*adds)(Given&, const Given& options, Additions&) = nullptr;
};

/// A call with options that `--as` shows as well.
struct Call {
    std::string text;  ///< `get_mesh("tp")`
    std::string accessor;
    Values options;
};

/// How a configuration is written; by itself: as a table in JSON, or as flags or a call where it has no
/// table.
enum class Written : std::uint8_t { by_itself, json_without_table, toml };

/// How jobs of a framework are started.
struct Start {
    std::string programs = {};  ///< that begin its commands, by spaces: `vllm`
    std::string launcher = {};  ///< its own
    std::string ranks = {};     ///< flags of the launcher that count the ranks of all hosts, by spaces
    std::string hosts = {};     ///< that count hosts
    std::string per_host = {};  ///< that count ranks of a host
    bool has_settings = false;  ///< the launcher's flags are the settings
    bool by_itself = false;     ///< its processes start the ranks, whatever a launcher starts
    std::string files = {};     ///< flags of the program that name a configuration, besides the usual ones
};

/// The rows of a framework.
struct Framework {
    std::string name;
    std::string version = {};  ///< of the original that the rows were compared with, where it has one
    std::string original;      ///< its module
    std::string title;         ///< one sentence
    std::string settings_of;   ///< whose settings these are, for the help of convert
    std::string example;       ///< settings that it reads
    std::vector<Setting> settings;
    std::vector<MeshRow> meshes;
    std::vector<KindRow> kinds;
    std::vector<AccessorRow> accessors;
    /// Throws Error for what is refused before a size below one is, and derives sizes that such a one stands
    /// for.
    void (*check_first)(Given&) = nullptr;
    /// Throws Error for settings that the framework refuses; what follows from them is derived here.
    void (*check)(Given&) = nullptr;
    /// Throws Error for what its command line refuses besides.
    void (*check_flags)(const Given&) = nullptr;
    /// Of a framework whose mesh may be a part of the world: the world rank of each of its ranks, rising;
    /// empty: the first ranks of the world.
    const std::vector<int>& (*placed)(const Given&) = nullptr;
    /// The setting that is the world rank of the mesh's first rank, where the mesh may be a part of the
    /// world.
    std::string offset = {};
    /// Adds the meshes and kinds whose names are settings.
    void (*extend)(const Given&, std::vector<MeshRow>& meshes, Kinds& kinds) = nullptr;
    /// The role of an axis that has another name elsewhere: `pcp` is `cp`.
    std::map<std::string, std::string> roles = {};
    /// Why axes and settings of others cannot be written, by their names, such as `ep, etp`.
    std::map<std::string, std::string> why = {};
    /// The experts' mesh in roles, of settings that have one; `mesh` is the framework's.
    std::optional<Mesh> (*experts)(const Given&, const Mesh& mesh) = nullptr;
    /// The settings for another's experts, a mesh in roles.
    Values (*write_experts)(const Mesh& experts) = nullptr;
    /// The meshes in roles, the dense layers' first, and the settings for such meshes, where neither follows
    /// from the first mesh and its experts; `read` may return none where both follow.
    std::vector<Mesh> (*read)(const Given&, const Mesh& mesh) = nullptr;
    Values (*write)(const std::vector<Mesh>& meshes) = nullptr;
    /// Of a trainer: the meshes of the servers that its rollouts use, where the settings say them.
    std::vector<Mesh> (*serving)(const Given&) = nullptr;
    /// `dp_replicate` or `dp_shard` for its axis dp, and how to copy parameters where it shards them.
    std::string_view (*dp_role)(const Given&) = nullptr;
    std::string copies_by = {};
    /// The number of ranks that settings say by themselves; null: the product of the sizes.
    std::optional<std::int64_t> (*ranks)(const Given&) = nullptr;
    /// What `--as` shows besides; throws Error for settings that only a configuration can say.
    std::vector<Call> (*calls)(const Given&) = nullptr;
    /// The Python type of what the original raises, by fault; the empty fault is all others.
    std::map<std::string, std::string> raises = {};
    /// The Python function that makes the groups, or a class with the accessors where it is capitalised; and
    /// the class of a group, which has each on the host, too; empty: torch's own.
    std::string initialize = {};
    /// The functions that make and give a process's object of that class, where the framework has them.
    std::string maker = {};
    std::string getter = {};
    std::string handle = {};
    /// True if `initialize` is a class, whose attributes and methods the accessors are.
    bool is_class() const { return !initialize.empty() && initialize[0] >= 'A' && initialize[0] <= 'Z'; }
    /// In Python: the argument after which `initialize` takes torch's backend, `(`: it is the first; and the
    /// function that makes the groups unless they are there.
    std::string backend_after = {};
    std::string ensure = {};
    bool by_value = false;  ///< objects of that class are equal if their settings are, as of a dataclass
    /// The class whose methods are the module's functions, where some of them set what others answer.
    std::string state_class = {};
    std::string asserts = {};  ///< the kind that `initialize` looks for, where that is not the first
    /// The slots that `initialize` sets, and those, by spaces, that outlive the groups.
    Values (*slots)(const Given&) = nullptr;
    std::string kept_slots = {};
    /// In Python, the class with the accessors from which one that is written by hand, in rankmesh/NAME.py,
    /// inherits them.
    std::string base = {};
    std::string module = {};  ///< that of a package NAME in which the Python names are; empty: NAME itself
    std::string table = {};   ///< of a configuration, in which the settings stand
    /// Tables of other configurations, by spaces and with dots: the settings are in the first that there is;
    /// and settings outside them, by spaces, whose product is the number of ranks.
    std::string places = {};
    std::string started = {};
    Start start = {};
    /// Makes of a configuration's values those of the function: in `places`, or with settings that are
    /// `only_configured`. `world` is 0 where it is not known and no size follows from it.
    void (*configure)(Values& values, int world) = nullptr;
    std::string ignore = {};  ///< settings there, by spaces, that do not say where ranks stand
    Written written = Written::by_itself;
    /// Virtual stages of a rank under the schedule Interleaved1F1B, unless a setting counts their layers.
    int interleaved_stages = 0;
    std::string leaves = {};    ///< what is left over, where the world must be said unless `ranks` says it
    std::string variable = {};  ///< the variable that holds the object of the class which `maker` has made
    bool serves = false;        ///< it serves models, and does not train them
};

/// All of them, by name: one for each folder here.
RANKMESH_EXPORT const std::vector<Framework>& all();
/// The settings with what follows from them. Throws Error for settings that the framework refuses.
RANKMESH_EXPORT Given accepted(const Framework& framework, const Values& settings, int world_size);
/// The framework of that name; throws UsageError that names the nearest.
RANKMESH_EXPORT const Framework& framework_named(std::string_view name);
/// The accessor of that name; throws UsageError that names the nearest.
RANKMESH_EXPORT const AccessorRow& accessor_named(const Framework& framework, std::string_view name);

}  // namespace rankmesh::frameworks
