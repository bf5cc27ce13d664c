// SPDX-License-Identifier: Apache-2.0
// A mesh under a framework's names: its kinds of groups, and the values of its accessors.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/converters.hpp"

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
    std::string framework = {};
    Mesh mesh;                         ///< the framework's own axes
    std::vector<GroupKind> kinds;      ///< in the order in which the framework first makes one
    std::function<Json(int)> answers;  ///< of a rank, by the names of the framework's accessors
    std::optional<Mesh> given = {};    ///< the dense layers' mesh as the user wrote it

    /// The kinds of these names with commas between, all of them for none; throws UsageError for unknown
    /// ones.
    std::vector<GroupKind> kinds_named(const std::string& names) const;
};

/// The frameworks that have words of their own.
std::vector<std::string_view> names_with_words();

/// A mesh, with that of the experts behind `;`, in the words of a framework; `world` is the number of ranks,
/// else a launcher's.
///
/// Throws UsageError for an unknown framework and a mesh beyond `world`, and Error with the reason where the
/// framework cannot say this mesh, or only with ranks elsewhere.
Words in_words(std::string_view framework, std::string_view mesh, std::optional<int> world);

/// Throws UsageError if `topology`, a mesh or placement as text, reaches beyond the `world` ranks that
/// `source` announces; `source` is a clause such as "--world says".
void check_within(const std::string& topology, int last_rank, int world, const std::string& source);

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
