// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/report/text.hpp>

#include "convert/job.hpp"
#include "formats/json.hpp"
#include "subcommand.hpp"

namespace rankmesh::cli {

class Output;
using conversion::Job;
using formats::Json;

/// The common arguments of all subcommands about meshes.
struct Common {
    std::string mesh;
    std::optional<int> world;
    bool json = false;
    std::string world_source = "--world says";  ///< the source of `world`, for error texts

    /// Returns these arguments, then `more`; all write to members of this object.
    std::vector<Option> options(std::vector<Option> more);
    /// Reads MESH: the text of a job. A size `*` is computed from --world, else from the launcher, else from
    /// the devices of `machines`. Throws UsageError if none is known, or if a mesh does not fit in --world.
    Job job(const std::optional<Cluster>& machines = std::nullopt) const;
    /// The same of one mesh or placement. Throws UsageError if there are several.
    Placement placement(const std::optional<Cluster>& machines = std::nullopt) const;
};

/// Prints the only entry of a list of a job, or the list under `key`.
void print_json(const Job& job, const char* key, const Json::Array& list, Output& output);

/// `--world N`.
Option world_option(std::optional<int>& world, std::string help);

/// Reads `dp,tp`. Throws UsageError, which names `what`, for an empty name.
std::vector<std::string> axis_names(std::string_view text, std::string_view what);

/// Reads the value of `--on`: the notation of a cluster, or a file, of format `from`. Notes on stderr which
/// nodes were left out. Throws UsageError for an invalid cluster.
std::optional<Cluster> cluster_of(const std::optional<std::string>& text, std::string_view from = {});
/// Throws UsageError if the cluster has no device for the rank.
void check_device(const Cluster& cluster, int rank);
/// Returns the position of a rank in the cluster, by level.
Json json_of_host(const Cluster& cluster, int rank);
using report::host_name;
using report::host_text;

/// Reads `67` or `pp=1,dp=0,tp=3`. Throws UsageError if it is neither, or if a coordinate is outside the
/// mesh.
int number_or_coordinate(const Placement& placement, const std::string& text);
/// Like number_or_coordinate, but also throws UsageError if the placement does not contain the rank.
int rank_of(const Placement& placement, const std::string& text);
/// The same of a rank of a job; only one mesh may have the axes of a coordinate.
int rank_of(const Job& job, const std::string& text);
/// Returns true if the mesh has all of these axes.
bool has_axes(const Placement& placement, const std::vector<std::string>& names);
/// Returns the meshes that have all of these axes. Throws UsageError if there are none.
std::vector<Placement> meshes_with(const Job& job, const std::vector<std::string>& names);
/// The same, if there is only one. Throws UsageError if there are several.
Placement mesh_with(const Job& job, const std::vector<std::string>& names);

/// Throws UsageError if the placement does not contain `rank`.
void check_rank(const Placement& placement, int rank);
/// Throws UsageError if the placement exceeds the `world` ranks of `source`, a clause such as "--world says".
void check_within(const Placement& placement, int world, const std::string& source);

}  // namespace rankmesh::cli
