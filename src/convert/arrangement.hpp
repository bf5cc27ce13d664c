// SPDX-License-Identifier: Apache-2.0
// Arrangement, the common form of every framework's settings: meshes whose axes are named by their roles.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/mesh.hpp>

#include "convert/job.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

/// A setting that does not change the groups: `virtual pipeline stages`, `2`.
struct Extra {
    std::string name;
    std::string value;
    bool in_job = false;  ///< the job's other layouts say it as well
    friend bool operator==(const Extra&, const Extra&) = default;
};

/// The layers of each virtual pipeline stage, and how many fewer the first and the last of all stages have.
struct StageLayers {
    int layers = 0;
    int first_less = 0;
    int last_less = 0;
    friend bool operator==(const StageLayers&, const StageLayers&) = default;
};

/// Meshes over the same ranks, the dense layers' first: `pp=2 dp=4 tp=2; pp=2 edp=2 ep=4 etp=1`.
///
/// The experts' mesh has an axis `ep`, their data-parallel ranks are `edp` and their tensor-parallel ones
/// `etp`. A mesh of replicas that cut through the dense axes has `mp_replicate` and `mp_shard`.
struct Arrangement {
    std::vector<Mesh> meshes;
    std::vector<Extra> extras = {};
    std::optional<StageLayers> stages = {};  ///< where the settings count the layers of virtual stages
    std::string one_etp = "give etp=1";      ///< how these settings say that no expert is cut
    std::vector<std::string> notes = {};     ///< on settings that the framework ignores
    /// The whole job, if it has layouts beside `meshes`, which are those of its first that trains.
    Job job = {};
    bool has_experts = true;          ///< false: the experts' mesh is there only if the model has experts
    std::string_view dp_role = "dp";  ///< dp_replicate or dp_shard, if the settings say which

    const Mesh& dense() const { return meshes.front(); }
    /// The experts' mesh, null if there is none.
    const Mesh* experts() const;
};

/// The layouts of a job that serve models, or those that do not; ranks of several parts count from 0 in each.
/// A mesh with an axis `servers` serves. Throws UsageError for a placement.
std::vector<std::vector<Mesh>> layouts_of(const Job& job, bool serving);
Arrangement arrangement_of(Job job);
/// The meshes, or the whole job, as `parse_job` reads them.
std::string to_string(const Arrangement& arrangement);
std::string to_string(const std::vector<Mesh>& meshes);

/// The role of an axis: `pipe` is `pp`, `data` is `dp`, `model` is `tp`; an unknown name is its own role.
std::string_view role_of(std::string_view name);
/// The same arrangement with axes named by their roles; experts that stand among the dense axes get a mesh of
/// their own, in which dp and cp are edp.
Arrangement in_roles(const Arrangement& arrangement);

using frameworks::size_of;
/// The size of all data-parallel axes together: dp, dp_replicate and dp_shard.
int data_size(const Mesh& mesh);
/// The names of the axes of more than one rank by falling stride, so that a mesh of them in this order moves
/// as few ranks as can be.
std::vector<std::string> by_stride(const Mesh& mesh);
/// A mesh whose ranks are 0, 1, 2, ... in the order of its axes.
Mesh plain_mesh(const std::vector<std::pair<std::string, int>>& axes);
/// The mesh with these axes as one, in mesh order; names that it lacks are left out, one name is renamed.
Mesh joined(const Mesh& mesh, const std::vector<std::string_view>& names, std::string_view as);

}  // namespace rankmesh::conversion
