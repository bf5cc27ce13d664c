// SPDX-License-Identifier: Apache-2.0
// How communicators are made: from a unique id, by a split, by a shrink.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "fake/nccl/config.hpp"
#include "fake/nccl/group.hpp"
#include "fake/nccl/order.hpp"

using namespace fake_nccl;

namespace {

constexpr auto begin_of_ids = "fake-nccl ";

/// Hands over the handle at once, and has the rest done by a job that undoes it where it fails.
void make(ncclComm_t* out, const std::shared_ptr<Communicator>& made, bool blocking,
          const std::function<void()>& work) {
    const auto handle = publish(made);
    *out = handle;
    submit(Job{{made}, blocking, [=] {
                   try {
                       work();
                       count_from_now(*made);
                   } catch (const Failure&) {
                       if (blocking) {
                           forget(handle);
                           *out = nullptr;
                       }
                       throw;
                   }
               }});
}

/// Has a child made by a job. Where the parent does not block, the call is a success at once, the parent is
/// in progress, and the handle is written when the job ends, after a failure too: its place must live until
/// then.
void make_child(ncclComm_t* out, const std::shared_ptr<Communicator>& made, const char* call,
                const std::shared_ptr<Communicator>& parent, const std::function<void()>& work) {
    *out = nullptr;
    const auto write = [=] {
        auto before = ncclComm_t{};
        if (!__atomic_compare_exchange_n(out, &before, publish(made), false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED))
            violation(call, " of communicator ", parent->name,
                      ": the place of the new communicator was used for something else before the job ended");
    };
    submit(Job{{parent},
               parent->is_blocking(),
               [=] {
                   try {
                       work();
                   } catch (const Failure& failure) {
                       made->set_state(failure.result, failure.what);
                       if (!parent->is_blocking() && parent->state() == ncclInProgress) write();
                       throw;
                   }
                   count_from_now(*made);
                   if (parent->is_blocking() || parent->state() == ncclInProgress) write();
               },
               true});
}

/// Which rank of which id has been taken in this process.
void take_once(const std::string& id, int rank) {
    static auto& mutex = *new std::mutex();
    static auto& taken = *new std::set<std::pair<std::string, int>>();
    const auto lock = std::lock_guard(mutex);
    if (!taken.emplace(id, rank).second)
        violation("rank ", rank, " is given twice with one unique id, which is good for one communicator");
}

ncclResult_t init(ncclComm_t* out, int size, int rank, int ids, const ncclUniqueId* given,
                  const ncclConfig_t* config, const char* call) {
    return answer([&] {
        fail_where_planted(call);
        demand(out && given && ids > 0, call, "an argument is missing");
        *out = nullptr;
        demand(size > 0 && rank >= 0 && rank < size, call, "the rank is not within the number of ranks");
        if (fake_cuda::ready(call) != cudaSuccess)
            throw Failure{ncclUnhandledCudaError, text(call, ": there is no device")};
        auto id = std::string{};
        for (int i = 0; i < ids; ++i) {
            if (std::strncmp(given[i].internal, begin_of_ids, std::strlen(begin_of_ids)) != 0)
                violation(call, " was given a unique id that ncclGetUniqueId has not made");
            id.append(given[i].internal, sizeof given[i].internal);
        }
        const auto key = hash(text(id, ids));
        auto made = std::make_shared<Communicator>();
        made->name = text("#", key % 10000);
        configure(*made, config, nullptr, call);
        take_once(text(key), rank);
        made->device = fake_cuda::current_device();
        made->id = key;
        made->rank = rank;
        for (int each = 0; each < size; ++each) made->ranks.push_back(each);
        make(out, made, made->is_blocking(), [=] {
            made->connection = std::make_shared<Connection>(
                text(key), rank, size, fake_cuda::identity(made->device), made->stop->aborted);
            const auto all = made->exchange(call, must_be_equal(made->config));
            for (int each = 0; each < size; ++each)
                demand_equal(*made, each, all[static_cast<std::size_t>(each)], call);
        });
    });
}

void demand_no_work(const Communicator& communicator, const char* call) {
    if (communicator.has_pending_work())
        violation(call, ": operations of communicator ", communicator.name,
                  " have not ended, which can deadlock");
}

std::shared_ptr<Communicator> child_of(const Communicator& parent, const ncclConfig_t* config,
                                       const char* call) {
    auto made = std::make_shared<Communicator>();
    made->device = parent.device;
    configure(*made, config, &parent, call);
    return made;
}

struct Member {
    int color, key, rank;
};

/// Makes the child of those who say one colour.
void split(Communicator& parent, const std::shared_ptr<Communicator>& made, std::uint64_t number,
           Member mine) {
    auto members = std::vector<Member>{};
    const auto own = made ? must_be_equal(made->config) : std::string{};
    const auto all = parent.exchange("ncclCommSplit", text(mine.color, " ", mine.key, " ", own));
    if (!made) return;
    for (int rank = 0; rank < parent.size(); ++rank) {
        auto each = Member{0, 0, rank};
        auto said = std::istringstream(all[static_cast<std::size_t>(rank)]);
        auto config = std::string{};
        said >> each.color >> each.key >> std::ws;
        std::getline(said, config);
        if (each.color != mine.color) continue;
        demand_equal(*made, rank, config, "ncclCommSplit");
        members.push_back(each);
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const auto& a, const auto& b) { return a.key < b.key; });
    made->connection = parent.connection;
    made->id = hash(text(parent.id, " split ", number, " ", mine.color));
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (members[i].rank == mine.rank) made->rank = static_cast<int>(i);
        made->ranks.push_back(parent.connection_rank(members[i].rank));
    }
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
    return answer([&] {
        demand(version, "ncclGetVersion", "the argument is null");
        *version = setting("FAKE_NCCL_VERSION", NCCL_VERSION_CODE);
    });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    return answer([&] {
        fail_where_planted("ncclGetUniqueId");
        demand(id, "ncclGetUniqueId", "the argument is null");
        *id = {};
        auto random = std::random_device();
        std::snprintf(id->internal, sizeof id->internal, "%s%d %08x%08x%08x", begin_of_ids, getpid(),
                      random(), random(), random());
    });
}

ncclResult_t ncclCommInitRank(ncclComm_t* out, int size, ncclUniqueId id, int rank) {
    return init(out, size, rank, 1, &id, nullptr, "ncclCommInitRank");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    return init(out, size, rank, 1, &id, config, "ncclCommInitRankConfig");
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* out, int size, int rank, int count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
    return init(out, size, rank, count, ids, config, "ncclCommInitRankScalable");
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
    constexpr auto call = "ncclCommSplit";
    return answer([&] {
        auto parent = ready(handle, call);
        demand(out, call, "the place for the new communicator is null");
        demand(color >= NCCL_SPLIT_NOCOLOR, call, "a colour is 0 or more, or NCCL_SPLIT_NOCOLOR");
        demand_no_work(*parent, call);
        *out = nullptr;
        const auto number = parent->splits++;
        auto made = child_of(*parent, config, call);
        if (made->name.empty()) made->name = text(parent->name, "/", number, ".", color);
        // It is for the parent to say; what the new one says holds for those that are split from it.
        if (parent->config.splitShare == 1 && !parent->revoked) made->stop = parent->stop;
        const auto mine = Member{color, key, parent->rank};
        if (color == NCCL_SPLIT_NOCOLOR) {
            submit(
                Job{{parent}, parent->is_blocking(), [=] { split(*parent, nullptr, number, mine); }, true});
        } else {
            make_child(out, made, call, parent, [=] { split(*parent, made, number, mine); });
        }
    });
}

ncclResult_t ncclCommShrink(ncclComm_t handle, int* excluded, int count, ncclComm_t* out,
                            ncclConfig_t* config, int flags) {
    constexpr auto call = "ncclCommShrink";
    return answer([&] {
        demand(flags == NCCL_SHRINK_DEFAULT || flags == NCCL_SHRINK_ABORT, call, "there is no such flag");
        auto parent = ready(handle, call);  // with NCCL_SHRINK_ABORT, too
        demand(out && excluded && count > 0, call, "an argument is missing");
        *out = nullptr;
        const auto without = std::set<int>(excluded, excluded + count);
        demand(!without.contains(parent->rank), call, "it is not for ranks that are excluded");
        if (*without.begin() < 0 || *without.rbegin() >= parent->size() ||
            static_cast<int>(without.size()) != count)
            violation(
                call, " of communicator ", parent->name,
                ": those to exclude are not different ranks of it, of which the new one's size is made");
        if (flags == NCCL_SHRINK_DEFAULT) demand_no_work(*parent, call);
        auto made = child_of(*parent, config, call);
        const auto number = parent->shrinks++;
        if (made->name.empty()) made->name = text(parent->name, "/shrink.", number);
        if (made->config.shrinkShare == 1 && flags == NCCL_SHRINK_DEFAULT && !parent->revoked)
            made->stop = parent->stop;
        auto words = text(call, " without");
        for (const auto each : without) words += text(" ", each);
        for (int each = 0; each < parent->size(); ++each) {
            if (each == parent->rank) made->rank = made->size();
            if (!without.contains(each)) made->ranks.push_back(parent->connection_rank(each));
        }
        made->connection = parent->connection;
        made->id = hash(text(parent->id, " shrink ", number));
        make_child(out, made, call, parent, [=] {
            if (flags == NCCL_SHRINK_ABORT) {
                parent->cancelled = true;
                parent->revoked = true;
                parent->wait_for_work();
            }
            parent->exchange(made->ranks, made->id, made->exchanges++, words, {});
        });
    });
}
