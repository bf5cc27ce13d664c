// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>

#include <rankmesh/engine/launcher.hpp>
#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_env {

struct Arguments : Common {
    std::string rank;
};

/// Shell variables in the order in which they were set, each once.
class Variables {
public:
    /// `owner` describes the variable in the error about a collision.
    void set(const std::string& name, int value, const std::string& owner) {
        reserve(name, owner);
        values_.emplace_back(name, value);
    }
    /// Throws UsageError if another owner has the name.
    void reserve(const std::string& name, const std::string& owner) {
        const auto [taken, added] = owners_.emplace(name, owner);
        if (!added)
            throw UsageError(
                fmt::format("{} and {} would both set {}; rename the axis", taken->second, owner, name));
    }
    const std::vector<std::pair<std::string, int>>& values() const { return values_; }

private:
    std::vector<std::pair<std::string, int>> values_;
    std::map<std::string, std::string> owners_;
};

/// `RANKMESH_DATA_PARALLEL` for the axis `data-parallel`.
std::string variable_of(std::string_view axis) {
    auto name = std::string("RANKMESH_");
    for (auto c : axis) {
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        name += c == '-' || c == '.' ? '_' : c;
    }
    return name;
}

/// The rank of this process, and the number of ranks if known.
struct Own {
    int rank = 0;
    std::optional<Announced> world = {};
};

/// Returns the values of --rank and --world, else the launcher's.
Own own(const Arguments& arguments, const Placement& placement) {
    auto own = Own{};
    if (arguments.world) own.world = Announced{*arguments.world, "--world"};
    if (!arguments.rank.empty()) {
        own.rank = number_or_coordinate(placement, arguments.rank);
        return own;
    }
    const auto rank = announced_rank();
    if (!rank)
        throw UsageError(
            "the rank is unknown: none of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID and RANK is set; run "
            "this under a launcher such as mpirun, or add --rank R");
    own.rank = rank->value;
    if (!own.world) own.world = announced_size();
    if (own.world && own.rank >= own.world->value)
        throw UsageError(fmt::format("{} says rank {}, but {} says {} ranks", rank->variable, own.rank,
                                     own.world->variable, own.world->value));
    return own;
}

int run(const Arguments& arguments, Output& output) {
    const auto placement = arguments.placement();
    const auto [rank, world] = own(arguments, placement);
    if (world) check_within(placement, world->value, world->variable + " says");
    const auto inside = placement.contains(rank);
    // A rank outside the mesh is valid if the world is known to be larger; otherwise it is an error.
    if (!inside && !(world && rank < world->value)) check_rank(placement, rank);

    auto variables = Variables{};
    variables.reserve("RANKMESH_ENGINE", "the choice of an engine");
    variables.reserve("RANKMESH_WORLD_SIZE", "the size of the world");
    variables.reserve("RANKMESH_STORE", "the store of the rendezvous");
    variables.reserve("RANKMESH_JOB", "the id of the job");
    variables.reserve("RANKMESH_INTERFACE", "the network interface");
    for (const auto* name :
         {"RANKMESH_REDIS_USER", "RANKMESH_REDIS_PASSWORD", "RANKMESH_REDIS_PASSWORD_FILE"})
        variables.reserve(name, "access to a Redis server");
    for (const auto* name : {"RANKMESH_SECRET", "RANKMESH_SECRET_FILE"})
        variables.reserve(name, "access to the store of rank 0");
    variables.set("RANKMESH_RANK", rank, "the rank");
    variables.set("RANKMESH_INSIDE", inside ? 1 : 0, "whether the rank is in the mesh");
    const auto& mesh = placement.mesh();
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto axis = AxisId{a};
        const auto owner = fmt::format("axis '{}'", mesh.name(axis));
        const auto name = variable_of(mesh.name(axis));
        if (inside)
            variables.set(name, placement.index(rank, axis), owner);
        else
            variables.reserve(name, owner);
        variables.set(name + "_SIZE", mesh.size(axis), owner);
    }
    if (arguments.json) {
        auto json = Json{{"mesh", to_string(placement)}, {"rank", rank}, {"inside", inside}};
        for (const auto& [name, value] : variables.values()) json["variables"][name] = value;
        output.print("{}\n", json.dump());
    } else {
        for (const auto& [name, value] : variables.values()) output.print("export {}={}\n", name, value);
    }
    return inside ? 0 : 1;
}

}  // namespace of_env

Subcommand env() {
    const auto arguments = std::make_shared<of_env::Arguments>();
    return {
        .name = "env",
        .help = "Print the coordinate of this process as shell variables.",
        .options = arguments->options(
            {{"--rank", "the rank, or its coordinate; default: the launcher's rank", &arguments->rank, "R"}}),
        .run = [arguments](Output& output) { return of_env::run(*arguments, output); },
        .group = Group::run,
        .examples = {"eval \"$(rankmesh env 'pp=2 dp=* tp=2')\"; echo \"stage $RANKMESH_PP\""},
        .notes =
            "Use the example in a script that mpirun or srun starts.\n"
            "Exit status 1: the rank exists, but is not in the mesh (RANKMESH_INSIDE=0)."};
}

}  // namespace rankmesh::cli
