// SPDX-License-Identifier: Apache-2.0
// A mesh under a framework's names: its kinds of groups, and the values of its accessors.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/frameworks.hpp"

namespace rankmesh::conversion {

/// All groups of one kind, under the framework's name for them.
struct GroupKind {
    std::string name;
    int count = 0;
    std::function<std::vector<int>(int)> group;  ///< number i, in the order of creation
    std::function<std::vector<int>(int)> of;     ///< that of a rank, empty where it has none
};

/// A mesh as a framework sees it.
struct Words {
    std::string dialect;
    Mesh mesh;                         ///< the framework's own axes
    std::vector<GroupKind> kinds;      ///< in the order in which the framework first makes one
    std::function<Json(int)> answers;  ///< of a rank, by the names of the framework's accessors
    std::optional<Mesh> given = {};    ///< the dense layers' mesh as the user wrote it

    /// The kinds of these names with commas between, all of them for none; throws UsageError for unknown
    /// ones.
    std::vector<GroupKind> kinds_named(const std::string& names) const;
};

/// The frameworks that have words of their own.
std::vector<std::string_view> dialect_names();

/// A mesh, with that of the experts behind `;`, in the words of a dialect; `world` is the number of ranks,
/// else a launcher's.
///
/// Throws UsageError for an unknown dialect and a mesh beyond `world`, and Error with the reason where the
/// framework cannot say this mesh, or only with ranks elsewhere.
Words in_words(std::string_view dialect, std::string_view mesh, std::optional<int> world);

/// Throws UsageError if `topology`, a mesh or placement as text, reaches beyond the `world` ranks that
/// `source` announces; `source` is a clause such as "--world says".
void check_within(const std::string& topology, int last_rank, int world, const std::string& source);

// --- helpers of the frameworks

/// The groups of a mesh along some axes.
GroupKind kind_along(std::string name, const Mesh& mesh, AxisSet axes);
/// The members at some positions of each of those groups.
GroupKind kind_picked(std::string name, const Mesh& mesh, AxisSet axes, std::vector<int> positions);

/// The accessors' values by name: a value, null, or where the framework raises an error its text.
class Answers {
public:
    template <class Ask>
    Answers& add(std::string_view name, Ask&& ask) {
        try {
            set(name, ask());
        } catch (const UsageError& error) {
            all_[std::string(name)] = {{"error", error.what()}};
        }
        return *this;
    }
    const Json& all() const { return all_; }

private:
    template <class Value>
    void set(std::string_view name, const Value& value) {
        all_[std::string(name)] = value;
    }
    template <class Value>
    void set(std::string_view name, const std::optional<Value>& value) {
        all_[std::string(name)] = value ? Json(*value) : Json();
    }
    Json all_ = Json::object();
};

template <class Ranks>
std::vector<int> list_of(const Ranks& ranks) {
    return {ranks.begin(), ranks.end()};
}
/// The same of a group; an empty list if there is none.
template <class Ranks>
std::vector<int> list_of(const std::optional<Ranks>& group) {
    return group ? list_of(*group) : std::vector<int>{};
}

}  // namespace rankmesh::conversion
