// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/report/text.hpp>

#include "formats/json.hpp"
#include "subcommand.hpp"

namespace rankmesh::cli {

using formats::Json;

/// The value of MESH on the command line: a mesh, or with `@[3,1,2,0]` a placement.
using Topology = std::variant<Mesh, Placement>;

/// The arguments that every subcommand about one mesh takes.
struct Common {
    std::string mesh;
    std::optional<int> world;
    bool json = false;
    std::string world_source = "--world says";  ///< who gave `world`, for error texts

    /// These arguments and then `more`; all write to members of this object.
    std::vector<Option> options(std::vector<Option> more);
    /// Reads MESH; a size `*` takes --world, else what the launcher announced. Throws UsageError if neither
    /// is known, or if the mesh reaches beyond --world.
    Topology topology() const;
};

/// `--world N`.
Option world_option(std::optional<int>& world, std::string help);

/// The mesh whose axes and sizes a topology has.
using detail::mesh_of;

/// Reads `dp,tp`; throws UsageError for an empty name, and says that `what` has it.
std::vector<std::string> axis_names(std::string_view text, std::string_view what);

/// Reads the value of `--on`, a cluster in the notation or a file; throws UsageError.
std::optional<Cluster> cluster_of(const std::optional<std::string>& text);
/// The position of a rank in the cluster, by level.
Json json_of_host(const Cluster& cluster, int rank);
using report::host_name;
using report::host_text;

/// Reads `67` or `pp=1,dp=0,tp=3`; throws UsageError if it is neither, or outside the mesh.
int number_or_coordinate(const Topology& topology, const std::string& text);
/// The same; throws UsageError too if the topology does not contain the rank.
int rank_of(const Topology& topology, const std::string& text);

/// Throws UsageError if the topology does not contain `rank`.
void check_rank(const Topology& topology, int rank);
/// Throws UsageError if the topology reaches beyond the `world` ranks that `source` announces; `source` is a
/// clause such as "--world says".
void check_within(const Topology& topology, int world, const std::string& source);

}  // namespace rankmesh::cli
