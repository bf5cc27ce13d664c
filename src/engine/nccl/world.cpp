// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/world.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>

namespace rankmesh::detail {
namespace {

/// The device of this rank; throws the error of this rank only.
int choose(WorldState& host, std::optional<int> asked) {
    const auto count = Libraries::get().devices();
    // Launchers may make only its own device visible to each process.
    const auto device = asked.value_or(count == 1 ? 0 : host.local_rank());
    if (device < 0 || device >= count)
        throw UsageError(
            cat("rank ", host.rank(), asked ? " asks for device " : " would take device ", device,
                "; this host has ", count,
                asked ? "" : ", and its local rank says which: start fewer ranks, or name devices"));
    return device;
}

/// True if NCCL was told to take two ranks on one GPU, as it can from version 2.30 (src/init.cc:1055
/// of 2.30.7).
bool may_share_a_gpu() {
    const auto* text = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return text && std::string_view(text) != "0";
}

/// The host of a GPU for NCCL, which takes NCCL_HOSTID for it where that is set (src/misc/utils.cc:125
/// of 2.30.7).
std::string host_for_nccl(WorldState& host) {
    if (const auto* given = std::getenv("NCCL_HOSTID")) return given;
    auto boot = std::string{};  // hosts may have one name
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    return cat(host.host(), " ", boot);
}

/// Throws on every rank if two have the same GPU, which NCCL refuses without naming them. Partitions of a GPU
/// (MIG) have its PCI id, so they are left to NCCL. Where NCCL was told to allow it, two threads of one
/// process still cannot: the calls of both go through the null stream of that process, one after the other.
void throw_if_shared(WorldState& host, int device) {
    auto id = std::array<char, 64>{};
    const auto& cuda = Libraries::get().cuda;
    const auto* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const auto known = !(visible && std::string_view(visible).find("MIG") != std::string_view::npos) &&
                       cuda.pci_bus_id(id.data(), static_cast<int>(id.size()), device) == cudaSuccess;
    const auto process = may_share_a_gpu() ? cat(" process ", getpid()) : std::string{};
    auto first = std::map<std::string, int>{};
    auto rank = 0;
    auto wrong = std::string{};
    for (const auto& said :
         all_say(host.exchange(), known ? cat(host_for_nccl(host), process, " ", id.data()) : "")) {
        const auto [found, is_new] = first.emplace(said, rank);
        if (!is_new && !said.empty() && wrong.empty())
            wrong =
                cat("ranks ", found->second, " and ", rank, " have the same GPU, ",
                    said.substr(said.rfind(' ') + 1),
                    process.empty()
                        ? " of one host, but NCCL needs a GPU of its own for each rank; start fewer ranks on "
                          "that host, or make other GPUs visible to them (CUDA_VISIBLE_DEVICES)"
                        : ", and are threads of one process, whose calls on one GPU would wait for each "
                          "other; start a process for each rank");
        ++rank;
    }
    if (!wrong.empty()) throw UsageError(wrong);
}

std::shared_ptr<NcclDevice> agreed_device(WorldState& host, std::optional<int> asked) {
    auto wrong = std::string{};
    auto device = std::shared_ptr<NcclDevice>{};
    try {
        device = std::make_shared<NcclDevice>(choose(host, asked), host.rank());
    } catch (const UsageError& error) {
        wrong = cat("m", error.what());
    } catch (const std::exception& error) {
        wrong = cat("e", error.what());
    }
    // Of a world that has grown some ranks would have it and others not, if a rank that has ended were an
    // error here: they would look for its survivors in two different worlds.
    const auto goes_on = host.is_grown && device;
    try {
        throw_what_is_wrong(host.exchange(), wrong);
        throw_if_shared(host, device->number);
    } catch (const PeerLost&) {
        if (!goes_on) throw;
    } catch (const Timeout&) {
        if (!goes_on) throw;
    }
    return device;
}

}  // namespace

void throw_what_is_wrong(Exchange& exchange, const std::string& wrong) {
    auto is_wrong = std::array<std::int64_t, 4>{wrong.empty() ? 0 : 1};
    exchange.max(is_wrong);  // whose errors name the ranks that do not come
    if (is_wrong[0] == 0) return;
    auto texts = std::vector<std::pair<std::string, std::vector<int>>>{};
    auto rank = 0;
    for (const auto& said : all_say(exchange, wrong)) {
        if (!said.empty()) {
            auto found = std::ranges::find(texts, said, [](const auto& each) { return each.first; });
            if (found == texts.end()) found = texts.insert(texts.end(), {said, {}});
            found->second.push_back(rank);
        }
        ++rank;
    }
    if (texts.empty()) return;
    auto text = std::string{};
    for (const auto& [said, ranks] : texts) {
        const auto all = static_cast<int>(ranks.size()) == exchange.size();
        const auto named = all || said.substr(1, 5) == "rank ";
        append(text, cat(text.empty() ? "" : "; ", said.substr(1),
                         named ? "" : cat(", on rank ", ranks_to_string(ranks))));
    }
    if (texts.front().first.front() == 'm') throw UsageError(text);
    throw EngineFailure(text);
}

NcclWorld::NcclWorld(std::shared_ptr<WorldState> host, std::optional<int> device, bool share,
                     std::unique_ptr<NcclComm> root)
    : NcclWorld(host, agreed_device(*host, device), share, std::move(root)) {}

NcclWorld::NcclWorld(std::shared_ptr<WorldState> host, std::shared_ptr<NcclDevice> device, bool share,
                     std::unique_ptr<NcclComm> root)
    : WorldState(host->options),
      host_(std::move(host)),
      share_(share),
      engine_(host_->exchange(), std::move(device), share, options.timeout, std::move(root), host_->cause) {
    WorldState::record_in(host_->recorder(), host_->roots());
    groups = host_->groups;
    cause = host_->cause;
    joins = 1'000'000;  // different from the host world's, whose channels have keys of the same form
    auto version = 0;
    Libraries::get().nccl.get_version(&version);
    log(cat("works on device ", device_number(), " with NCCL ", nccl_version_text(version)));
}

void NcclWorld::leave(const std::string& what) noexcept {
    host_->leave(what);
    engine_.leave();
}

std::shared_ptr<WorldState> NcclWorld::sub(const std::vector<int>& ranks) {
    return std::make_shared<NcclWorld>(host_->sub(ranks), device_number(), share_, nullptr);
}

std::shared_ptr<WorldState> NcclWorld::survivors(Duration grace) {
    auto host = host_->survivors(grace);
    auto root = std::unique_ptr<NcclComm>{};
    try {
        root = engine_.shrink(host->exchange());
    } catch (const PeerLost&) {  // another one has ended, of which the next join tells all ranks
    } catch (const Timeout&) {
    }
    log(cat("goes on ", root ? "with a shrunk" : "without the", " NCCL communicator of all ranks"));
    auto device = std::make_shared<NcclDevice>(device_number(), host->rank(), engine_.device().reaper());
    return std::make_shared<NcclWorld>(std::move(host), std::move(device), share_, std::move(root));
}

/// Those that enter make theirs over the larger host world, and the next join a communicator of all.
std::shared_ptr<WorldState> NcclWorld::grow(int most, Duration timeout) {
    return std::make_shared<NcclWorld>(host_->grow(most, timeout), device_number(), share_, nullptr);
}

}  // namespace rankmesh::detail
