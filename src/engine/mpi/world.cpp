// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/world.hpp"

#include <random>

#include <rankmesh/core/mesh.hpp>

#include "engine/diagnosis/failure.hpp"
#include "engine/hash.hpp"
#include "engine/mpi/channel.hpp"
#include "engine/system.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

constexpr int sub_tag = 0x4000;  // no declared item has this number
constexpr int tell_tag = 1;      // of messages between the ranks of a group that is made at run time

void name(MPI_Comm comm, const std::string& text) {
    MPI_Comm_set_name(comm, text.substr(0, MPI_MAX_OBJECT_NAME - 1).c_str());
}

}  // namespace

std::shared_ptr<MpiWorld> MpiWorld::over(std::shared_ptr<Runtime> runtime, MPI_Comm comm,
                                         const WorldOptions& options) {
    auto watched_call = WatchedCall(0, nullptr);
    const auto label = Label{};
    auto own = MPI_COMM_NULL;
    runtime->watchdog().add(watched_call);
    {
        const auto watched = WhileWatched(watched_call, "the start of the world", label, options.timeout);
        MPI_Comm_dup(comm, &own);
    }
    runtime->watchdog().remove(watched_call);
    return std::make_shared<MpiWorld>(std::move(runtime), own, options);
}

MpiWorld::MpiWorld(std::shared_ptr<Runtime> runtime, MPI_Comm comm, const WorldOptions& options)
    : WorldState(options), runtime_(std::move(runtime)), comm_(comm) {
    // A host program may have asked for return codes; a mismatch under those corrupts the heap.
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    MPI_Comm_group(comm_, &group_);
    name(comm_, "rankmesh world");
    auto watched_call = WatchedCall(0, nullptr);
    runtime_->watchdog().add(watched_call);
    auto number = std::uint64_t{0};
    auto local = std::vector<int>{};
    {
        const auto watched = WhileWatched(watched_call, "the start of the world", label_, options.timeout);
        if (rank_ == 0) number = (std::uint64_t{std::random_device{}()} << 32) + std::random_device{}();
        MPI_Bcast(&number, 1, MPI_UINT64_T, 0, comm_);
        local = find_host();
    }
    runtime_->watchdog().remove(watched_call);
    roll_call_ = std::make_shared<PeerQuery>(number, rank_, std::move(local));
    watched_call_ = std::make_unique<WatchedCall>(hash("world"), roll_call_);
    label_.ranks.group = Mesh{{"world", size_}}.group(0, "world");
    runtime_->watchdog().add(*watched_call_);
}

MpiWorld::~MpiWorld() {
    runtime_->watchdog().remove(*watched_call_);
    if (!runtime_->is_usable()) return;
    runtime_->watchdog().end_world(roll_call_);
    for (auto& [bytes, request] : sending_) {
        auto sent = 0;
        MPI_Test(&request, &sent, MPI_STATUS_IGNORE);
        if (sent) continue;
        MPI_Request_free(&request);
        static_cast<void>(bytes.release());  // which nobody has received, and MPI may still read
    }
    MPI_Group_free(&group_);
    MPI_Comm_free(&comm_);
}

/// Finds the ranks of this rank's host, and returns those that share its memory: RANKMESH_HOST divides them
/// to simulate several hosts.
std::vector<int> MpiWorld::find_host() {
    auto here = MPI_COMM_NULL;
    MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    auto local = 0;
    MPI_Comm_size(here, &local);
    struct Named {
        char host[128];
        int rank;
    };
    auto own = Named{{}, rank_};
    host_ = host_name().substr(0, sizeof own.host - 1);
    std::ranges::copy(host_, own.host);
    auto all = std::vector<Named>(static_cast<std::size_t>(local));
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, here);
    MPI_Comm_free(&here);
    auto near = std::vector<int>{};
    for (const auto& each : all) {
        near.push_back(each.rank);
        if (host_ == each.host) local_ranks_.push_back(each.rank);
    }
    return near;
}

std::string MpiWorld::receive(int from) {
    const auto watched = WhileWatched(*watched_call_, "join or split, receiving what other ranks say", label_,
                                      options.timeout, joins_);
    auto status = MPI_Status{};
    MPI_Probe(from, 0, comm_, &status);
    auto count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    auto bytes = std::string(static_cast<std::size_t>(count), '\0');
    MPI_Recv(bytes.data(), count, MPI_BYTE, from, 0, comm_, MPI_STATUS_IGNORE);
    return bytes;
}

void MpiWorld::post(int to, const std::string& bytes) {
    runtime_->check_thread();
    std::erase_if(sending_, [](Sending& each) {
        auto sent = 0;
        MPI_Test(&each.request, &sent, MPI_STATUS_IGNORE);
        return sent != 0;
    });
    auto& each = sending_.emplace_back(
        Sending{.bytes = std::make_unique<std::string>(bytes), .request = MPI_REQUEST_NULL});
    MPI_Isend(each.bytes->data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tell_tag, comm_,
              &each.request);
}

/// Looks for messages instead of waiting in MPI, so that a timeout is an error here and not the job's end.
std::vector<std::pair<int, std::string>> MpiWorld::collect(const std::string&, std::span<const int> from,
                                                           std::chrono::steady_clock::time_point until) {
    constexpr auto longest_pause = std::chrono::microseconds(1000);
    runtime_->check_thread();
    auto heard = std::vector<std::pair<int, std::string>>{};
    for (auto pause = std::chrono::microseconds(1);; pause = std::min(pause * 2, longest_pause)) {
        for (const auto each : from) {
            auto there = 0;
            auto status = MPI_Status{};
            MPI_Iprobe(each, tell_tag, comm_, &there, &status);
            if (!there) continue;
            auto count = 0;
            MPI_Get_count(&status, MPI_BYTE, &count);
            auto& bytes = heard.emplace_back(each, std::string(static_cast<std::size_t>(count), '\0')).second;
            MPI_Recv(bytes.data(), count, MPI_BYTE, each, tell_tag, comm_, MPI_STATUS_IGNORE);
        }
        if (!heard.empty() || std::chrono::steady_clock::now() >= until) return heard;
        std::this_thread::sleep_for(pause);
    }
}

/// Called by the group's ranks only: the tag distinguishes groups that are created at the same time.
MPI_Comm MpiWorld::create(const std::vector<int>& ranks, int tag) const {
    auto group = MPI_Group{};
    auto made = MPI_COMM_NULL;
    MPI_Group_incl(group_, static_cast<int>(ranks.size()), ranks.data(), &group);
    MPI_Comm_create_group(comm_, group, tag, &made);
    MPI_Group_free(&group);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_ARE_FATAL);
    return made;
}

std::shared_ptr<Channel> MpiWorld::create(const ChannelRequest& request) {
    runtime_->check_thread();
    const auto watched =
        WhileWatched(*watched_call_, "join, making a communicator", *request.label, options.timeout);
    const auto made = create(request.label->ranks.list(), request.item);
    name(made, "rankmesh " + request.label->text());
    return std::make_shared<MpiChannel>(runtime_, roll_call_, made, hash(request.key), request.label,
                                        recorder(), cause);
}

std::shared_ptr<WorldState> MpiWorld::sub(const std::vector<int>& ranks) {
    runtime_->check_thread();
    auto made = MPI_COMM_NULL;
    {
        const auto watched =
            WhileWatched(*watched_call_, "sub, making a world of some ranks", label_, options.timeout);
        made = create(ranks, sub_tag);
    }
    return std::make_shared<MpiWorld>(runtime_, made, options);
}

std::shared_ptr<WorldState> MpiWorld::survivors(Duration) {
    throw UsageError(cat("rank ", rank_,
                         " asks for the survivors of a world on MPI, whose launcher ends all "
                         "processes with the first; ",
                         what_survives));
}

std::shared_ptr<WorldState> MpiWorld::grow(int, Duration) {
    throw UsageError(cat("rank ", rank_,
                         " asks for more ranks of a world on MPI, whose launcher starts all processes at "
                         "once; ",
                         what_grows));
}

}  // namespace rankmesh::detail
