// SPDX-License-Identifier: Apache-2.0
// The text of a job: parts over different ranks between `+`, meshes over the same ranks between `;`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/placement.hpp>

namespace rankmesh::conversion {

using detail::cat;

/// Meshes over the same ranks, the dense layers' first: `dp=8 tp=2; edp=4 ep=4`.
struct Part {
    std::vector<Placement> meshes;

    const Placement& front() const { return meshes.front(); }
    int size() const { return front().size(); }
    /// The highest rank plus 1.
    int extent() const { return front().extent(); }
    /// The lowest rank.
    int first() const;
};

/// The layouts of a job, such as a trainer and rollout servers: `dp=8 tp=2; edp=4 ep=4 + servers=4 tp=2 @16`.
///
/// Law: no rank is in two parts.
/// Law: `parse_job(to_string(job))` has the same meshes as `job`.
struct Job {
    std::vector<Part> parts;

    /// The highest rank plus 1.
    int extent() const;
    /// The number of ranks.
    int size() const;
    /// All meshes, in the order of the text.
    std::vector<Placement> meshes() const;
    /// The only mesh; null if there are several.
    const Placement* single() const;
    /// The number of the part that has `rank`; throws UsageError if none has.
    std::size_t part_of(int rank) const;
};

/// Reads meshes and placements with `;` and `+` between them.
///
/// A mesh without `@` begins where the part before ends. A size `*` is computed from the other mesh of its
/// part, else from the ranks that the other parts leave of `world`, else of a launcher's world, else of
/// `devices`. Throws UsageError where this is unknown, where the meshes of a part are over different ranks,
/// and where two parts share a rank.
Job parse_job(std::string_view text, std::optional<int> world, std::optional<int> devices = std::nullopt);
/// The meshes of a part that one program uses. A mesh with an axis `servers` is of as many jobs, all others
/// of the part are of one.
struct Program {
    Part given;
    Part own = {};    ///< the same with the ranks of its own job, from 0 in each of several parts
    int servers = 0;  ///< 0: no servers
};
std::vector<Program> programs_of(const Job& job);
/// The mesh of one server of a mesh with an axis `servers`, over the ranks 0, 1, 2, ...
Mesh one_server(const Mesh& mesh);
std::string to_string(const Part& part);
std::string to_string(const Job& job);

}  // namespace rankmesh::conversion
