// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/engine.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>

#include <rankmesh/core/error.hpp>

#include "engine/diagnosis/attendance.hpp"
#include "engine/fields.hpp"
#include "engine/join/blueprint.hpp"
#include "engine/record/recorder.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

std::string bytes_of(const ncclUniqueId& id) { return {id.internal, sizeof id.internal}; }

void check(ncclResult_t result, const char* what) {
    if (result != ncclSuccess)
        throw EngineFailure(cat("NCCL reports '", Libraries::get().nccl.error_string(result), "' in ", what));
}

/// The settings of a group, with its label as the name if none is set.
DeviceSettings settings_of(const ChannelRequest& request) {
    auto settings = request.settings;
    if (settings.name.empty()) settings.name = cat("rankmesh ", request.label->text());
    return settings;
}

}  // namespace

std::vector<std::string> all_say(Exchange& exchange, const std::string& own) {
    auto said = std::vector{own};
    return unpack_texts(gather(
        exchange,
        [&](const std::string& bytes) {
            for (auto& each : unpack_texts(bytes)) said.push_back(std::move(each));
        },
        [&] { return pack_texts(said); }));
}

std::size_t NcclEngine::free_memory() const {
    const auto& cuda = Libraries::get().cuda;
    device_->use();
    auto free = std::size_t{0};
    auto total = std::size_t{0};
    cuda.check(cuda.memory_info(&free, &total), "cudaMemGetInfo");
    return free;
}

NcclComm& NcclEngine::root() {
    if (root_) return *root_;
    const auto rank = exchange_.rank();
    const auto size = exchange_.size();
    const auto count = nccl_id_count(size);
    // Each id is made by the first of the ranks that it serves, which then listens for them.
    auto own = ncclUniqueId{};
    const auto makes = std::int64_t{rank} * count % size < count;
    if (makes) check(Libraries::get().nccl.unique_id(&own), "ncclGetUniqueId");
    auto ids = std::vector<ncclUniqueId>{};
    for (const auto& said : all_say(exchange_, makes ? bytes_of(own) : std::string{}))
        if (said.size() == sizeof own.internal) std::memcpy(&ids.emplace_back(), said.data(), said.size());
    root_ = NcclComm::init(ids, size, rank, share_, {.name = "rankmesh, all ranks"},
                           {cat("join, making the communicator of all ranks on rank ", rank), timeout_},
                           device_->reaper());
    return *root_;
}

/// Created by the ranks of one group only.
std::unique_ptr<NcclComm> NcclEngine::init_group(const ChannelRequest& request, Channel& host,
                                                 const NcclComm::Phase& phase) {
    auto id = ncclUniqueId{};
    if (request.group_rank == 0) check(Libraries::get().nccl.unique_id(&id), "ncclGetUniqueId");
    host.run({.operation = Operation::broadcast,
              .dtype = DType::byte,
              .argument = 0,
              .in = id.internal,
              .out = id.internal,
              .in_count = sizeof id.internal,
              .out_count = sizeof id.internal},
             *request.label, timeout_);
    return NcclComm::init({id}, request.label->ranks.size(), request.group_rank, false, settings_of(request),
                          phase, device_->reaper());
}

/// Throws if the host's engine has lost a rank of the groups that this rank is in.
void NcclEngine::look_at_hosts() const {
    try {
        for (const auto& each : hosts_)
            if (const auto channel = each.channel.lock()) channel->throw_if_broken(*each.label);
    } catch (const PeerLost&) {
        exchange_.throw_if_failed();  // that rank may have failed because of another
        throw;
    }
}

/// Throws the error in flight; where it is a loss or a timeout that names nobody, with the ranks that have
/// ended or do not answer, as far as the host's engine knows.
void NcclEngine::throw_with_names(const NcclComm::Phase& phase, bool everyone) {
    auto expired = false;
    auto text = std::string{};
    auto until = std::chrono::steady_clock::now();
    try {
        throw;
    } catch (const PeerLost& lost) {
        if (!lost.ranks.empty()) throw;
        text = lost.what();
        until += host_lag;
    } catch (const Timeout& timeout) {
        if (!timeout.missing.empty()) throw;
        text = cat("the timeout of ", to_text(phase.timeout), " expired in ", phase.what);
        expired = true;
    }
    const auto error = std::current_exception();
    for (look_at_hosts(); std::chrono::steady_clock::now() < until; look_at_hosts())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    exchange_.throw_if_failed();
    auto arrived = std::vector<int>{};
    auto missing = std::vector<int>{};
    auto seen = std::map<int, std::string>{};
    const auto largest = std::ranges::max_element(
        hosts_, {}, [](const Host& each) { return each.channel.expired() ? 0 : each.label->ranks.size(); });
    if (const auto channel = largest == hosts_.end() ? nullptr : largest->channel.lock()) {
        const auto statuses = channel->ask({}, 0);
        for (std::size_t i = 0; i < statuses.size(); ++i) {
            const auto rank = largest->label->ranks[static_cast<int>(i)];
            (statuses[i].answers ? arrived : missing).push_back(rank);
            seen[rank] = statuses[i].doing;
        }
        look_at_hosts();
    }
    if (missing.empty()) {
        auto nothing = std::array<std::int64_t, 4>{};
        // All ranks of the world have failed, and meet there but for the missing ones.
        if (everyone) exchange_.max(nothing);
        std::rethrow_exception(error);
    }
    append(text, cat(": missing ", largest->label->named(missing)));
    if (!expired) throw PeerLost(text, missing);
    throw Timeout(text, arrived, missing,
                  last_seen(missing, *largest->label, [&](int rank) { return seen[rank]; }));
}

std::shared_ptr<Channel> NcclEngine::create(const ChannelRequest* request,
                                            const std::shared_ptr<Channel>& host, bool everyone) {
    device_->use();
    const auto phase = NcclComm::Phase{cat(everyone ? "join, making " : "prepare, making ",
                                           request ? request->label->text() : "a communicator of other ranks",
                                           " on rank ", exchange_.rank()),
                                       timeout_, [this] { look_at_hosts(); }};
    auto comm = std::unique_ptr<NcclComm>{};
    std::erase_if(hosts_, [](const auto& each) { return each.channel.expired(); });
    if (request) hosts_.push_back({host, request->label});
    try {
        if (!everyone)
            comm = init_group(*request, *host, phase);
        else if (request)
            comm = root().split(request->label->ranks[0], request->group_rank, settings_of(*request), phase,
                                device_->reaper());
        else
            root().split(NCCL_SPLIT_NOCOLOR, 0, {}, phase, device_->reaper());
    } catch (const EngineFailure&) {
        if (host) host->leave();  // which names this rank to those that wait for it
        throw;
    } catch (const Error&) {
        try {
            throw_with_names(phase, everyone);
        } catch (const PeerLost& lost) {
            if (everyone) exchange_.fail(Failure::of(lost));
            throw;
        } catch (const Timeout& timeout) {
            if (everyone) exchange_.fail(Failure::of(timeout));
            throw;
        }
    }
    if (!request) return nullptr;
    auto channel =
        std::make_shared<NcclChannel>(NcclChannel::Parts{.device = device_,
                                                         .comm = std::move(comm),
                                                         .host = host,
                                                         .label = request->label,
                                                         .group_rank = request->group_rank,
                                                         .size = request->label->ranks.size(),
                                                         .timeout = timeout_,
                                                         .high_priority = request->settings.high_priority,
                                                         .cause = cause_});
    std::erase_if(channels_, [](const auto& weak) { return weak.expired(); });
    channels_.push_back(channel);
    return channel;
}

void NcclEngine::check_settings(const DeviceSettings& settings, const std::string& whose) const {
    if (share_ && settings.traffic_class)
        throw UsageError(
            cat(whose, " is tuned to ", to_text(settings),
                "; communicators that share resources (split_share) have no traffic class of their own, so "
                "leave out one or the other"));
}

std::unique_ptr<NcclComm> NcclEngine::shrink(Exchange& survivors) {
    // Communicators that share resources with it would be aborted together with it.
    const auto can = root_ && !share_ && root_->can_shrink();
    auto left = std::vector<int>{};  // by their numbers here
    for (const auto& said : all_say(survivors, can ? cat(exchange_.rank(), " ") : std::string{}))
        left.push_back(said.empty() ? -1 : static_cast<int>(Fields(said, "what another rank says").number()));
    const auto before = first_ranks(exchange_.size());
    const auto all_have_it = std::ranges::none_of(left, [](int each) { return each < 0; });
    if (all_have_it && left.size() == before.size()) return nullptr;
    // ncclCommShrink leaves at least one rank out, and keeps the order of the others.
    if (!all_have_it || left.size() < 2 ||
        std::ranges::adjacent_find(left, std::greater_equal()) != left.end()) {
        // A rank that has aborted it, or is lost, does not finalise it with the others.
        if (!share_) root_ = nullptr;
        return nullptr;
    }
    auto without = std::vector<int>{};
    std::ranges::set_difference(before, left, std::back_inserter(without));
    auto made = std::unique_ptr<NcclComm>{};
    try {
        device_->use();
        made = root_->shrink(
            without, {.name = "rankmesh, all ranks that are left"},
            {cat("survivors, shrinking the communicator of all ranks on rank ", exchange_.rank()),
             timeout_ / 2});  // the other half is for the ranks that wait for the outcome
    } catch (const Error&) {  // then no rank has one, and the next join makes a new one
    }
    for (const auto& said : all_say(survivors, made ? "made" : ""))
        if (said.empty()) return nullptr;
    root_ = nullptr;  // its ranks would never finalise it; if all of them join again, they make a new one
    return made;
}

std::string NcclEngine::report() const {
    const auto count =
        std::ranges::count_if(channels_, [](const auto& weak) { return !weak.expired(); }) + (root_ ? 1 : 0);
    const auto free = free_memory();
    return cat(count, count == 1 ? " NCCL communicator, " : " NCCL communicators, ",
               (free_before_ - std::min(free, free_before_)) >> 20, " MiB of device ", device_->number);
}

}  // namespace rankmesh::detail
