// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/meeting.hpp"

#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

#include <rankmesh/engine/launcher.hpp>

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

}  // namespace

std::string Met::text() const {
    auto text = cat("rank ", rank, " (", rank_from, ") of ", size, " (", size_from, ")");
    if (!store.empty())
        append(text, cat(", store '", store, "' (", store_from, "), job '", job, "' (", job_from, ")"));
    return text;
}

Met meet(const gloo::Meeting& given) {
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
    met.interface = given.interface.empty() ? environment("RANKMESH_INTERFACE") : given.interface;
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
                    : "; MASTER_ADDR and MASTER_PORT name a store of torch, which does not serve here"));
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
