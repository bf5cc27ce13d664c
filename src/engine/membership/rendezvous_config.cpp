// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/rendezvous_config.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

#include <rankmesh/engine/launcher.hpp>

#include "engine/environment.hpp"
#include "engine/hash.hpp"
#include "engine/store/stores.hpp"
#include "engine/store/url.hpp"

namespace rankmesh::detail {
namespace {

std::string environment(const char* variable) {
    const auto* given = std::getenv(variable);
    return given ? given : "";
}

/// What a job id needs to tell apart the starts that torchrun makes with one id: `.1` after the first
/// restart.
///
/// Each of its agents counts the restarts of its own ranks alone. Agents that meet for every start, as by the
/// c10d rendezvous, start ranks only when all earlier ones have ended, and with them what rank 0 served.
std::string start_of_torchrun(bool by_tcp) {
    const auto restarts = environment("TORCHELASTIC_RESTART_COUNT");
    const auto agents_meet = environment("TORCHELASTIC_USE_AGENT_STORE") == "True" ||
                             environment("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") == "1";
    return restarts.empty() || (by_tcp && agents_meet) ? std::string{} : cat(".", restarts);
}

/// The job id that the launcher gives, and the variables that hold it.
std::pair<std::string, std::string> announced_job(bool by_tcp) {
    if (const auto own = environment("RANKMESH_JOB"); !own.empty()) return {own, "RANKMESH_JOB"};
    // torchrun's id is 'none' if the user gave none.
    if (const auto run = environment("TORCHELASTIC_RUN_ID"); !run.empty() && run != "none")
        return {cat(run, start_of_torchrun(by_tcp)), "TORCHELASTIC_RUN_ID"};
    if (const auto job = environment("SLURM_JOB_ID"); !job.empty() && !environment("SLURM_STEP_ID").empty())
        return {cat(job, ".", environment("SLURM_STEP_ID"), ".", environment("SLURM_RESTART_COUNT")),
                "SLURM_JOB_ID, SLURM_STEP_ID"};
    if (const auto name = environment("PMIX_NAMESPACE"); !name.empty()) return {name, "PMIX_NAMESPACE"};
    return {};
}

std::string interface_of(const gloo::RendezvousOptions& given) {
    return given.interface.empty() ? environment("RANKMESH_INTERFACE") : given.interface;
}

/// True if the launcher says where rank 0 is, as torchrun does.
bool has_master() { return !environment("MASTER_ADDR").empty() && !environment("MASTER_PORT").empty(); }

/// The store that rank 0 serves beside MASTER_PORT.
std::string store_beside_master() {
    const auto port = number_in_environment({"MASTER_PORT"}, 1)->value;
    if (port > 65535)
        throw UsageError(
            cat("MASTER_PORT=", port, " is no port; set it to a number of 1 to 65535, or unset it"));
    return TcpUrl::beside(environment("MASTER_ADDR"), port).text();
}

/// The first host of Slurm's list: `node01` of `node[01-04,07],gpu3`.
std::string first_host(std::string_view list) {
    auto host = std::string{};
    auto in_brackets = false;
    auto skips = false;  // the numbers after the first
    for (const auto c : list) {
        if (c == '[')
            in_brackets = true;
        else if (c == ']')
            in_brackets = skips = false;
        else if (in_brackets && (c == '-' || c == ','))
            skips = true;
        else if (c == ',')
            break;
        else if (!skips)
            host += c;
    }
    return host;
}

/// The store that rank 0 serves on the first host of the step, whose tasks are the ranks; "" outside Slurm.
/// Each step has ports of its own, below those that systems give to clients.
std::string store_of_slurm(const RendezvousConfig& config) {
    const auto host = first_host(environment("SLURM_STEP_NODELIST"));
    if (host.empty() || environment("SLURM_PROCID") != cat(config.rank) ||
        environment("SLURM_STEP_NUM_TASKS") != cat(config.size))
        return {};
    constexpr auto ports = 8;
    const auto step = hash(cat(environment("SLURM_JOB_ID"), ".", environment("SLURM_STEP_ID"))) % 2500;
    const auto first = 10'000 + static_cast<int>(step) * ports;
    return TcpUrl{.host = host, .first_port = first, .last_port = first + ports - 1}.text();
}

void find_store(RendezvousConfig& config, const gloo::RendezvousOptions& given) {
    config.store = given.store;
    config.store_from = "the program";
    if (config.store.empty()) {
        config.store = environment("RANKMESH_STORE");
        config.store_from = "RANKMESH_STORE";
    }
    if (config.store.empty() && has_master()) {
        config.store = store_beside_master();
        config.store_from = "MASTER_ADDR, MASTER_PORT";
    }
    if (config.store.empty()) {
        config.store = store_of_slurm(config);
        config.store_from = "SLURM_STEP_NODELIST";
    }
    if (config.store.empty())
        throw UsageError(cat(
            "the engine 'gloo' has no store in which ", config.size, " processes (", config.size_from,
            ") meet",
            environment("MASTER_ADDR").empty() ? "" : ": MASTER_ADDR is set, and MASTER_PORT is not",
            "; set MASTER_ADDR and MASTER_PORT to the host of rank 0 and a port of it, or RANKMESH_STORE to "
            "a folder that all of them see, to tcp://HOST:PORT or to redis://HOST:PORT, and RANKMESH_JOB to "
            "an id of this start"));
    const auto by_tcp = config.store.starts_with("tcp:");
    // Before anything repeats it.
    if (by_tcp)
        config.store = TcpUrl::parse(config.store).text();
    else if (is_url(config.store))
        static_cast<void>(RedisUrl::parse(config.store));
    config.job = given.job;
    config.job_is_secret = given.job_is_secret && !given.job.empty();
    config.job_from = "the program";
    if (config.job.empty()) std::tie(config.job, config.job_from) = announced_job(by_tcp);
    // Entries that rank 0 serves end with it: no earlier job has left any.
    if (config.job.empty() && by_tcp) {
        config.job = cat("tcp:", TcpUrl::parse(config.store).ports(), start_of_torchrun(by_tcp));
        config.job_from = "its port";
    }
    if (config.job.empty())
        throw UsageError(
            cat("the engine 'gloo' has no job id, so entries of an earlier job in the store '", config.store,
                "' could be taken for this one's; set RANKMESH_JOB to the same new text for every "
                "process, such as RANKMESH_JOB=$(uuidgen)"));
    if (config.job.size() > 200)
        throw UsageError(cat("a job id of ", config.job.size(), " characters (", config.job_from,
                             "); it must have 1 to 200"));
}

}  // namespace

bool has_rendezvous() { return !environment("RANKMESH_STORE").empty() || has_master(); }

std::string RendezvousConfig::text() const {
    auto text = cat("rank ", rank, " (", rank_from, ") of ", size, " (", size_from, ")");
    if (!store.empty())
        append(text, cat(", store '", store, "' (", store_from, "), job '", job, "' (", job_from, ")"));
    return text;
}

RendezvousConfig resolve(const gloo::RendezvousOptions& given) {
    auto config = RendezvousConfig{};
    config.rank_from = config.size_from = "the program";
    if (given.size) {
        config.size = *given.size;
    } else if (const auto size = announced_size()) {
        config.size = size->value;
        config.size_from = size->variable;
    } else {
        throw UsageError(
            "the engine 'gloo' does not know how many processes there are: none of RANKMESH_WORLD_SIZE, "
            "OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_STEP_NUM_TASKS and WORLD_SIZE is set; start under a "
            "launcher, "
            "or set RANK and WORLD_SIZE for every process");
    }
    if (given.rank) {
        config.rank = *given.rank;
    } else if (const auto rank = announced_rank()) {
        config.rank = rank->value;
        config.rank_from = rank->variable;
    } else if (config.size > 1) {
        throw UsageError(
            cat("the engine 'gloo' does not know which of ", config.size, " processes (", config.size_from,
                ") this is: none of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID and RANK is set; set "
                "RANK to 0..",
                config.size - 1, ", or RANKMESH_WORLD_SIZE=1 if a world of 1 is meant"));
    } else {
        config.rank_from = "the only one";
    }
    if (config.size < 1)
        throw UsageError(cat("a world of ", config.size, " processes; it must have 1 or more"));
    if (config.rank < 0 || config.rank >= config.size)
        throw UsageError(cat("rank ", config.rank, " (", config.rank_from, ") of a world of ", config.size,
                             " (", config.size_from, "); ranks are 0..", config.size - 1));
    config.interface = interface_of(given);
    if (config.size > 1) find_store(config, given);
    return config;
}

RendezvousConfig resolve_entering(const gloo::RendezvousOptions& given) {
    auto config = RendezvousConfig{};
    config.size = 0;
    config.rank = -1;
    config.rank_from = config.size_from = "the world that it enters";
    if (given.rank) {
        config.rank = *given.rank;
        config.rank_from = "the program";
        if (config.rank < 0)
            throw UsageError(
                cat("rank ", config.rank, " of a running job is asked for; ranks are 0 or more"));
    } else if (const auto rank = number_in_environment({"RANK"}, 0)) {
        config.rank = rank->value;
        config.rank_from = rank->variable;
    }
    config.interface = interface_of(given);
    if (given.store.empty() && !has_rendezvous())
        throw UsageError(
            "a process enters a running job by the store of that job, and RANKMESH_STORE is not set; set it "
            "to what "
            "the job was started with, a folder, tcp://HOST:PORT or redis://HOST:PORT");
    find_store(config, given);
    return config;
}

std::shared_ptr<Store> open_store(const RendezvousConfig& config) {
    if (config.size == 1) return nullptr;
    if (!is_url(config.store)) return file_store(config.store, config.job);
    if (!config.store.starts_with("tcp:")) return redis_store(RedisUrl::parse(config.store), config.job);
    // A process that enters a running job never serves, whatever place it asks for.
    const auto rank = config.size == 0 ? std::max(config.rank, 1) : config.rank;
    return tcp_store(TcpUrl::parse(config.store), config.job, rank, config.size, config.job_is_secret);
}

}  // namespace rankmesh::detail
