// SPDX-License-Identifier: Apache-2.0
#include "fake/nccl/group.hpp"

#include <algorithm>
#include <utility>

#include "fake/nccl/plan.hpp"

namespace fake_nccl {
namespace {

/// The calls of one communicator, in their order.
using Calls = std::vector<Operation>;

struct Group {
    int depth = 0;
    ncclResult_t error = ncclSuccess;
    std::vector<Calls> calls = {};
    std::vector<Job> jobs = {};

    ~Group() {
        if (depth > 0) violation("a thread has ended after ncclGroupStart without ncclGroupEnd");
    }
};

thread_local Group group;
thread_local std::string last;

/// The answer of calls that go on after it.
struct InProgress {};

/// Does something later on a thread of its own, until when the communicators are in progress.
void later(const std::vector<std::shared_ptr<Communicator>>& communicators, std::function<void()> work) {
    for (const auto& each : communicators) each->begin_job();
    std::thread([communicators, work = std::move(work)] {
        std::this_thread::sleep_for(std::chrono::microseconds(setting("FAKE_LAG", 50)));
        auto end = Failure{ncclSuccess, {}};
        try {
            work();
        } catch (const Failure& failure) {
            end = failure;
        }
        for (const auto& each : communicators) each->end_job(end.result, end.what);
    }).detach();
}

void run(std::vector<Job> jobs) {
    for (const auto& each : jobs)
        if (each.blocking != jobs.front().blocking)
            throw Failure{ncclInvalidArgument, "a group has both blocking and nonblocking communicators"};
    if (!jobs.front().blocking) {
        for (const auto& each : jobs) later(each.communicators, each.work);
        if (jobs.size() == 1 && jobs.front().quiet) return;
        throw InProgress{};
    }
    if (jobs.size() == 1) return jobs.front().work();
    auto failures = std::vector<Failure>(jobs.size(), Failure{ncclSuccess, {}});
    auto threads = std::vector<std::thread>{};
    for (std::size_t i = 0; i < jobs.size(); ++i)
        threads.emplace_back([&, i] {
            try {
                jobs[i].work();
            } catch (const Failure& failure) {
                failures[i] = failure;
            }
        });
    for (auto& each : threads) each.join();
    for (const auto& each : failures)
        if (each.result != ncclSuccess) throw each;
}

/// With FAKE_CONNECT=1 the first collective of a communicator meets those of all its ranks before it is on
/// a stream.
void connect(const Calls& calls) {
    auto& communicator = *calls.front().communicator;
    if (setting("FAKE_CONNECT", 0) == 0 || communicator.collectives > 0) return;
    if (std::ranges::all_of(calls, &Operation::is_message)) return;
    communicator.exchange(communicator.ranks, hash(text(communicator.id, " connected")), 0,
                          "its first collective", {});
}

void run(std::vector<Calls> all) {
    auto communicators = std::vector<std::shared_ptr<Communicator>>{};
    for (const auto& calls : all) {
        const auto& communicator = calls.front().communicator;
        enter(communicator->gate, "ncclGroupEnd", text("communicator ", communicator->name));
        enter(gate_of_device(communicator->device), "ncclGroupEnd", text("device ", communicator->device));
        communicators.push_back(communicator);
        if (communicator->is_blocking() != communicators.front()->is_blocking())
            throw Failure{ncclInvalidArgument, "a group has both blocking and nonblocking communicators"};
        const auto to_itself = [&](Function function) {
            return std::count_if(calls.begin(), calls.end(), [&](const auto& each) {
                return each.function == function && each.root == communicator->rank;
            });
        };
        if (to_itself(Function::send) != to_itself(Function::receive))
            throw Failure{ncclInvalidUsage,
                          "a message to the own rank is not sent and received in one group"};
    }
    auto work = [all = std::move(all)]() mutable {
        for (auto& calls : all) {
            connect(calls);
            launch(std::move(calls));
        }
    };
    if (communicators.front()->is_blocking()) return work();
    later(communicators, std::move(work));
    throw InProgress{};
}

void start() { ++group.depth; }

void end() {
    if (group.depth == 0) throw Failure{ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart"};
    if (--group.depth > 0) return;
    auto calls = std::exchange(group.calls, {});
    auto jobs = std::exchange(group.jobs, {});
    if (const auto error = std::exchange(group.error, ncclSuccess); error != ncclSuccess)
        throw Failure{error, last};
    if (!calls.empty() && !jobs.empty())
        violation("a group has both operations and calls that make or end communicators");
    if (!calls.empty()) run(std::move(calls));
    if (!jobs.empty()) run(std::move(jobs));
}

}  // namespace

void set_last_error(const std::string& what) { last = what; }
const std::string& last_error() { return last; }

ncclResult_t answer(const std::function<void()>& body) {
    const struct Leaving {
        ~Leaving() { leave_gates(kept); }
        std::size_t kept = entered();
    } leaving;
    try {
        body();
        return ncclSuccess;
    } catch (const InProgress&) {
        return ncclInProgress;
    } catch (const Failure& failure) {
        last = failure.what;
        if (group.depth > 0) group.error = failure.result;
        return failure.result;
    }
}

void submit(Operation operation) {
    start();
    const auto same = std::find_if(group.calls.begin(), group.calls.end(), [&](const Calls& calls) {
        return calls.front().communicator == operation.communicator;
    });
    if (same != group.calls.end())
        same->push_back(std::move(operation));
    else
        group.calls.push_back({std::move(operation)});
    end();
}

void submit(Job job) {
    start();
    group.jobs.push_back(std::move(job));
    end();
}

}  // namespace fake_nccl

using namespace fake_nccl;

ncclResult_t ncclGroupStart() { return answer(start); }
ncclResult_t ncclGroupEnd() { return answer(end); }
