// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/meeting.hpp"

#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <rankmesh/engine/launcher.hpp>

#include "engine/gloo/pmix_client.hpp"
#include "engine/gloo/redis_url.hpp"

namespace rankmesh::detail {
namespace {

std::string environment(const char* variable) {
    const auto* given = std::getenv(variable);
    return given ? given : "";
}

/// The job id that the launcher gives, and the variables that hold it.
std::pair<std::string, std::string> announced_job() {
    if (const auto own = environment("RANKMESH_JOB"); !own.empty()) return {own, "RANKMESH_JOB"};
    // torchrun's id stays when it starts the processes again, and is 'none' where nobody gave one.
    if (const auto run = environment("TORCHELASTIC_RUN_ID"); !run.empty() && run != "none")
        return {cat(run, ".", environment("TORCHELASTIC_RESTART_COUNT")), "TORCHELASTIC_RUN_ID"};
    if (const auto job = environment("SLURM_JOB_ID"); !job.empty() && !environment("SLURM_STEP_ID").empty())
        return {cat(job, ".", environment("SLURM_STEP_ID"), ".", environment("SLURM_RESTART_COUNT")),
                "SLURM_JOB_ID, SLURM_STEP_ID"};
    if (const auto name = environment("PMIX_NAMESPACE"); !name.empty()) return {name, "PMIX_NAMESPACE"};
    return {};
}

std::string interface_of(const gloo::Meeting& given) {
    return given.interface.empty() ? environment("RANKMESH_INTERFACE") : given.interface;
}

/// What would make PMIx serve here.
std::string how_to_have_pmix() {
    if (!PmixClient::is_built())
        return "this build of rankmesh has no PMIx; configure with -DRANKMESH_PMIX=ON where libpmix-dev is "
               "installed";
    const auto name = environment("PMIX_NAMESPACE");
    return cat(name.empty()
                   ? "no PMIx server has started this process"
                   : cat("the PMIx server of '", name, "', which started this process, does not answer"),
               "; start under mpirun of Open MPI or srun --mpi=pmix");
}

/// How this process meets the others by PMIx; nothing if something else was said or no server answers.
std::optional<Met> meet_by_pmix(const gloo::Meeting& given) {
    const auto store = given.store.empty() ? environment("RANKMESH_STORE") : given.store;
    const auto asked = store == "pmix";
    const auto announced = given.size ? Announced{*given.size, {}} : announced_size().value_or(Announced{});
    if (!asked && (!store.empty() || announced.value == 1)) return std::nullopt;
    auto met = Met{};
    met.pmix = PmixClient::of_process();
    if (!met.pmix) {
        if (!asked) return std::nullopt;
        if (!PmixClient::is_built()) throw NotBuilt(how_to_have_pmix());
        throw Misuse(
            cat("the engine 'gloo' is to meet by PMIx (RANKMESH_STORE=pmix), but ", how_to_have_pmix()));
    }
    met.rank = met.pmix->rank();
    met.size = met.pmix->size();
    if (given.rank.value_or(met.rank) != met.rank || given.size.value_or(met.size) != met.size)
        throw Misuse(cat("the program says that this is rank ", given.rank.value_or(met.rank), " of ",
                         given.size.value_or(met.size), ", but by PMIx it is rank ", met.rank, " of ",
                         met.size, "; leave both out of the Meeting, or give it a store"));
    met.interface = interface_of(given);
    return met;
}

}  // namespace

bool is_place_known() {
    return !environment("RANKMESH_STORE").empty() ||
           (PmixClient::is_built() && !environment("PMIX_NAMESPACE").empty());
}

std::string Met::text() const {
    if (pmix) return cat("rank ", rank, " of ", size, " by PMIx, namespace '", pmix->name_space(), "'");
    auto text = cat("rank ", rank, " (", rank_from, ") of ", size, " (", size_from, ")");
    if (!store.empty())
        append(text, cat(", store '", store, "' (", store_from, "), job '", job, "' (", job_from, ")"));
    return text;
}

Met meet(const gloo::Meeting& given) {
    if (auto met = meet_by_pmix(given)) return *met;
    auto met = Met{};
    met.rank_from = met.size_from = "the program";
    if (given.size) {
        met.size = *given.size;
    } else if (const auto size = announced_size()) {
        met.size = size->value;
        met.size_from = size->variable;
    } else {
        throw Misuse(
            "the engine 'gloo' does not know how many processes there are: none of RANKMESH_WORLD_SIZE, "
            "OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_STEP_NUM_TASKS and WORLD_SIZE is set; start under a "
            "launcher, "
            "or set RANK and WORLD_SIZE for every process");
    }
    if (given.rank) {
        met.rank = *given.rank;
    } else if (const auto rank = announced_rank()) {
        met.rank = rank->value;
        met.rank_from = rank->variable;
    } else if (met.size > 1) {
        throw Misuse(
            cat("the engine 'gloo' does not know which of ", met.size, " processes (", met.size_from,
                ") this is: none of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID and RANK is set; set "
                "RANK to 0..",
                met.size - 1));
    } else {
        met.rank_from = "the only one";
    }
    if (met.size < 1) throw Misuse(cat("a world of ", met.size, " processes; it must have 1 or more"));
    if (met.rank < 0 || met.rank >= met.size)
        throw Misuse(cat("rank ", met.rank, " (", met.rank_from, ") of a world of ", met.size, " (",
                         met.size_from, "); ranks are 0..", met.size - 1));
    met.interface = interface_of(given);
    if (met.size == 1) return met;

    met.store = given.store;
    met.store_from = "the program";
    if (met.store.empty()) {
        met.store = environment("RANKMESH_STORE");
        met.store_from = "RANKMESH_STORE";
    }
    if (met.store.empty())
        throw Misuse(
            cat("the engine 'gloo' does not know where the ", met.size, " processes (", met.size_from,
                ") meet; set RANKMESH_STORE to a folder that all of them see, such as "
                "RANKMESH_STORE=$HOME/.rankmesh, or to a Redis server, RANKMESH_STORE=redis://HOST:PORT, "
                "and RANKMESH_JOB to an id of this start",
                environment("MASTER_ADDR").empty()
                    ? ""
                    : "; MASTER_ADDR and MASTER_PORT name a store of torch, which does not serve here",
                "; by PMIx they need neither, but ", how_to_have_pmix()));
    if (is_url(met.store)) static_cast<void>(RedisUrl::parse(met.store));  // before anything repeats it
    met.job = given.job;
    met.job_from = "the program";
    if (met.job.empty()) std::tie(met.job, met.job_from) = announced_job();
    if (met.job.empty())
        throw Misuse(cat("the engine 'gloo' has no job id, so notes of an earlier job in the store '",
                         met.store,
                         "' could be taken for this one's; set RANKMESH_JOB to the same new text for every "
                         "process, such as RANKMESH_JOB=$(uuidgen)"));
    if (met.job.size() > 200)
        throw Misuse(
            cat("a job id of ", met.job.size(), " characters (", met.job_from, "); it must have 1 to 200"));
    return met;
}

}  // namespace rankmesh::detail
