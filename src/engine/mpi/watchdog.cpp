// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/watchdog.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "engine/mpi/inquiry.hpp"
#include "engine/mpi/peer_query.hpp"
#include "engine/system.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

Watchdog::Watchdog(int rank, std::function<void()> end) : rank_(rank), end_(std::move(end)) {
    // Without a pipe a sleep just lasts its period.
    if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) wake_[0] = wake_[1] = -1;
    thread_ = thread_without_signals([this] { watch(); });
}

Watchdog::~Watchdog() {
    {
        const auto lock = std::lock_guard(mutex_);
        stopping_ = true;
    }
    if (wake_[1] >= 0 && write(wake_[1], "", 1) < 0) {
    }
    thread_.join();
    for (auto descriptor : wake_)
        if (descriptor >= 0) close(descriptor);
}

void Watchdog::answer() const {
    for (const auto& world : ended_) world->answer(own_status());
    const PeerQuery* answered = nullptr;  // flights of one world are mostly adjacent
    for (const auto* watched : calls_)
        if (auto* world = watched->world().get(); world && world != answered) {
            if (world->answer(own_status())) write_records();
            answered = world;
        }
}

/// Sleeps until a question arrives or the period is over.
void Watchdog::sleep(std::unique_lock<std::mutex>& lock) {
    auto wanted = std::vector<pollfd>{{wake_[0], POLLIN, 0}};
    for (const auto& world : ended_) wanted.push_back({world->descriptor(), POLLIN, 0});
    for (const auto* watched : calls_)
        if (watched->world() &&
            std::ranges::find(wanted, watched->world()->descriptor(), &pollfd::fd) == wanted.end())
            wanted.push_back({watched->world()->descriptor(), POLLIN, 0});
    lock.unlock();
    poll(wanted.data(), static_cast<nfds_t>(wanted.size()), static_cast<int>(period.count()));
    lock.lock();
}

void Watchdog::watch() {
    auto lock = std::unique_lock(mutex_);
    while (!stopping_) {
        sleep(lock);
        const auto now = std::chrono::steady_clock::now();
        if (now >= end_at_) end_();
        answer();
        if (!ended_.empty() && now >= announce_at_) {
            std::erase_if(ended_, [](const auto& world) { return world->announce_end(); });
            announce_at_ = now + std::chrono::seconds(1);
        }
        for (auto* watched : calls_) {
            const auto active = watched->active();
            if (active != watched->seen.active) {
                watched->seen.active = active;
                watched->seen.since = now - watched->passed_of(active);
                watched->seen.compare_after = 10 * Duration(period);
                watched->seen.ended_compared = 0;
                continue;
            }
            if (active == 0) continue;
            const auto waited = now - watched->seen.since;
            if (watched->world() && watched->seen.ended_compared < watched->world()->ended().size())
                look_for_ended(*watched, active, waited);
            if (watched->world() && waited >= watched->seen.compare_after) {
                watched->seen.compare_after *= 2;
                look_for_mixture(*watched, active);
            }
            const auto timeout = watched->timeout();
            if (waited < timeout || !watched->is_still(active)) continue;
            if (watched->is_start() && waited < start_up && have_all_come(*watched)) continue;
            report(*watched, timeout);
        }
    }
}

/// Ends the job if this call waits for a rank that has ended its world: it cannot be interrupted.
void Watchdog::look_for_ended(WatchedCall& watched, std::uint64_t active, Duration waited) {
    const auto& world = *watched.world();
    const auto message = watched.is_message();
    const auto number = watched.number();
    const auto& label = watched.label();
    const auto argument = watched.call().argument;
    const auto from_any = message && argument == any_source;
    if (!watched.is_still(active)) return;
    const auto heard = world.ended().size();
    if (message || number > 0) {
        auto asked = std::vector<int>{};
        for (const auto& [rank, since] : world.ended()) {
            const auto& ranks = label.ranks;
            auto needed = message && !from_any && ranks[argument] == rank;
            for (int i = 0; i < ranks.size() && (!message || from_any) && !needed; ++i)
                needed = ranks[i] == rank;
            if (!needed) continue;
            // A message may still be on its way.
            if (message && (waited < delivery || std::chrono::steady_clock::now() - since < delivery)) return;
            asked.push_back(rank);
        }
        auto lost = std::vector<int>{};
        if (!asked.empty())
            for (const auto& [rank, status] : Inquiry(watched, own_status()).ask(asked, Inquiry::brief).told)
                if (status.ended && !status.arrived) lost.push_back(rank);
        if (!watched.is_still(active)) return;
        // One rank that may still send to any of them is enough.
        const auto others = std::ssize(lost) < label.ranks.size() - 1;
        if (!lost.empty() && !(from_any && others))
            end(watched, {.reason = "peer_lost", .lost = lost},
                cat(label.named(lost), lost.size() == 1 ? " has" : " have",
                    " ended the world while another rank waits: ", place(watched)));
    }
    watched.seen.ended_compared = heard;
}

/// Ends the job if a rank has started the collective that another blocks in, which MPI does not match. Each
/// rank asks the next one only: where there are both kinds, two neighbours differ.
void Watchdog::look_for_mixture(const WatchedCall& watched, std::uint64_t active) const {
    const auto number = watched.number();
    const auto& label = watched.label();
    const auto own = watched.started(number);
    const auto collective = watched.is_collective();
    if (!watched.is_still(active) || !collective || number == 0 || !own) return;
    const auto& ranks = label.ranks;
    auto here = 0;
    while (here < ranks.size() && ranks[here] != watched.world()->rank()) ++here;
    const auto next =
        Inquiry(watched, own_status()).ask({ranks[(here + 1) % ranks.size()]}, Inquiry::brief).told;
    if (next.empty() || next.begin()->second.started.value_or(*own) == *own || !watched.is_still(active))
        return;
    auto all = std::vector<int>{};
    for (int i = 0; i < std::min(ranks.size(), Inquiry::most_asked); ++i) all.push_back(ranks[i]);
    auto starting = std::vector<int>{};
    auto blocking = std::vector<int>{};
    (*own ? starting : blocking).push_back(watched.world()->rank());
    for (const auto& [rank, status] : Inquiry(watched, own_status()).ask(all, Inquiry::patience).told)
        if (status.started) (*status.started ? starting : blocking).push_back(rank);
    if (!watched.is_still(active)) return;
    std::ranges::sort(starting);
    std::ranges::sort(blocking);
    end(watched, {.reason = "disagreement"},
        cat("MPI does not match a started call with a blocking one, and ", ranks_to_string(starting),
            starting.size() == 1 ? " has" : " have", " started what ", ranks_to_string(blocking),
            blocking.size() == 1 ? " blocks" : " block", " in: ", place(watched)));
}

bool Watchdog::have_all_come(const WatchedCall& watched) const {
    if (!watched.world()) return false;
    const auto ranks = watched.label().ranks.list();
    const auto told = Inquiry(watched, own_status()).ask(ranks, Inquiry::patience).told;
    return told.size() + 1 == ranks.size() &&
           std::ranges::all_of(told, [](const auto& answer) { return answer.second.arrived; });
}

RankStatus Watchdog::status(const PeerQuery& world, std::uint64_t key, std::uint64_t number,
                            const std::string& record_key) const {
    auto status = RankStatus{.arrived = false, .text = "outside any call"};
    const Recorder* recorder = nullptr;
    for (const auto* watched : calls_) {
        if (watched->key() == key && watched->world().get() == &world) {
            status.arrived = number > 0 && watched->reached() >= number;
            if (number > 0) status.started = watched->started(number);
            status.call = watched->collective(number);
        }
        if (watched->recorder()) recorder = watched->recorder().get();
        if (watched->world().get() == &world && !status.waits) status.waits = watched->awaited();
    }
    if (recorder) status.text = recorder->doing();
    // A step that is not an operation, which the record does not have.
    for (const auto* watched : calls_)
        if (const auto* phrase = watched->phrase(); phrase && watched->active() != 0)
            status.text = cat("in ", phrase);
    for (const auto& ended : ended_)
        if (ended.get() == &world) {
            status.arrived = number > 0 && world.reached(key) >= number;
            status.ended = true;
        }
    if (!record_key.empty()) {
        const auto called = recorder ? recorder->collectives(record_key) : std::nullopt;
        status.arrived = called && *called >= number;
        status.ended = status.ended || !called;
    }
    return status;
}

std::vector<Channel::PeerStatus> Watchdog::ask(const WatchedCall& watched, const Ranks& ranks,
                                               const std::string& record_key, std::uint64_t number) {
    const auto lock = std::lock_guard(mutex_);
    const auto& world = watched.world();
    if (!world || ranks.size() > Inquiry::most_asked || record_key.size() > PeerMessage::longest_text)
        return {};
    const auto answers =
        world->ask(ranks.list(), watched.key(), number, own_status(), Inquiry::patience, true, record_key);
    return Inquiry::statuses_of(*world, ranks.list(), answers);
}

/// Writes the records of this process, since a peer has asked.
void Watchdog::write_records() const {
    const Recorder* written = nullptr;
    for (const auto* watched : calls_)
        if (auto* recorder = watched->recorder().get(); recorder && recorder != written) {
            recorder->asked();
            written = recorder;
        }
}

/// `rank 0 [dp=0 tp=0] in all_reduce of ..., since 10:46:40`.
std::string Watchdog::place(const WatchedCall& watched) const {
    return cat(watched.label().named({rank_}), " in ", watched.text(), ", since ",
               time_of_day(watched.seen.since));
}

void Watchdog::report(const WatchedCall& watched, Duration timeout) const {
    const auto ranks = Inquiry(watched, own_status()).attendance();
    auto text = cat("the timeout of ", to_text(timeout), " expired on ", place(watched));
    if (!ranks.arrived.empty()) append(text, cat(": ", ranks.text(watched.label())));
    if (!ranks.seen.empty()) append(text, cat("; ", ranks.seen));
    auto why = RecordReason{.reason = "timeout", .arrived = ranks.arrived, .missing = ranks.missing};
    why.missing.insert(why.missing.end(), ranks.unreachable.begin(), ranks.unreachable.end());
    end(watched, std::move(why), text);
}

/// The job ends once the others have had time to ask this rank: where its process has ended, none answers.
void Watchdog::end(const WatchedCall& watched, RecordReason why, const std::string& text) const {
    ending_.store(true, std::memory_order_release);
    const auto line = cat("rankmesh: ", text, "; the job is ended");
    if (watched.recorder()) {
        why.error = line;
        watched.recorder()->failed(std::move(why));
    }
    std::fputs((line + "\n").c_str(), stderr);
    const auto until = std::chrono::steady_clock::now() + lingering;
    while (std::chrono::steady_clock::now() < until) {
        answer();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    end_();
    std::abort();
}

}  // namespace rankmesh::detail
