// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/watchdog.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/agreed.hpp"
#include "engine/diagnosis/difference.hpp"
#include "engine/mpi/peer_message.hpp"
#include "engine/mpi/types.hpp"
#include "engine/thread_without_signals.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

Call Flight::StoredCall::load() const {
    const auto words = what.load(std::memory_order_relaxed);
    auto call = Call{};
    std::memcpy(static_cast<void*>(&call), &words, sizeof words);
    call.in_count = in_count.load(std::memory_order_relaxed);
    call.out_count = out_count.load(std::memory_order_relaxed);
    call.tag = tag.load(std::memory_order_relaxed);
    call.source = -1;  // not stored
    return call;
}

bool Flight::is_message() const {
    return !phrase_.load(std::memory_order_relaxed) && is_point_to_point(call().operation);
}

bool Flight::is_collective() const {
    return !phrase_.load(std::memory_order_relaxed) && is_collective_of_mpi(call().operation);
}

std::string Flight::collective(std::uint64_t number) const {
    const auto active = active_.load(std::memory_order_acquire);
    if (active == 0 || number == 0 || this->number() != number) return {};
    const auto call = this->call();
    if (phrase_.load(std::memory_order_relaxed) || is_point_to_point(call.operation)) return {};
    return is_still(active) ? to_string(Agreed::of(call), 1) : std::string{};
}

std::optional<bool> Flight::started(std::uint64_t number) const {
    const auto reached = reached_.load(std::memory_order_acquire);
    const auto started = started_.load(std::memory_order_acquire);
    // The bit may have been replaced since by that of a call 64 later.
    if (number > reached || reached_.load(std::memory_order_relaxed) - number >= 63) return std::nullopt;
    return (started >> (number % 64) & 1) != 0;
}

std::optional<AwaitedCall> Flight::awaited() const {
    const auto active = active_.load(std::memory_order_acquire);
    if (active == 0 || active != seen_) return std::nullopt;
    auto awaited = AwaitedCall{.key = key_, .number = number(), .ranks = {}};
    const auto* label = label_.load(std::memory_order_relaxed);
    const auto message = is_message();
    const auto peer = call().argument;
    if (!is_still(active)) return std::nullopt;
    if (message) {
        awaited.number = 0;
        if (peer == any_source) {
            awaited.ranks = label->ranks.list();
            if (world_) std::erase(awaited.ranks, world_->rank());
        } else {
            awaited.ranks = {label->ranks[peer]};
        }
    } else if (awaited.number == 0) {
        return std::nullopt;
    } else {
        awaited.ranks = label->ranks.list();
    }
    return awaited;
}

std::string Flight::text() const {
    if (const auto* phrase = phrase_.load(std::memory_order_relaxed)) return phrase;
    const auto& stored = has_purpose_.load(std::memory_order_relaxed) ? purpose_ : call_;
    const auto call = stored.load();
    const auto& label = *label_.load(std::memory_order_relaxed);
    return cat(to_string(call, &label.ranks), " (", std::max(call.in_bytes(), call.out_bytes()), " bytes), ",
               is_point_to_point(call.operation) ? "message" : "call", " number ",
               stored.number.load(std::memory_order_relaxed), " on ", label.text(), ", group ",
               to_string(label.ranks));
}

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

void Watchdog::add(Flight& flight) {
    const auto lock = std::lock_guard(mutex_);
    flights_.push_back(&flight);
}

void Watchdog::remove(Flight& flight) {
    const auto lock = std::lock_guard(mutex_);
    std::erase(flights_, &flight);
    if (flight.world_) flight.world_->close(flight.key_, flight.reached_.load(std::memory_order_relaxed));
}

void Watchdog::end_world(std::shared_ptr<PeerQuery> world) {
    const auto lock = std::lock_guard(mutex_);
    if (!world->announce_end()) ended_.push_back(std::move(world));
}

void Watchdog::rename(int rank) {
    const auto lock = std::lock_guard(mutex_);
    rank_ = rank;
}

void Watchdog::record(Flight& flight, std::shared_ptr<Recorder> recorder) {
    const auto lock = std::lock_guard(mutex_);
    flight.recorder_ = std::move(recorder);
}

void Watchdog::end_after(Duration grace) {
    const auto lock = std::lock_guard(mutex_);
    end_at_ = std::min(end_at_, std::chrono::steady_clock::now() + grace);
}

RankStatusOf Watchdog::own_status() const {
    return [this](const auto& world, auto key, auto number, const auto& ring) {
        return status(world, key, number, ring);
    };
}

void Watchdog::answer() const {
    for (const auto& world : ended_) world->answer(own_status());
    const PeerQuery* answered = nullptr;  // flights of one world are mostly adjacent
    for (const auto* flight : flights_)
        if (auto* world = flight->world_.get(); world && world != answered) {
            if (world->answer(own_status())) write_records();
            answered = world;
        }
}

/// Sleeps until a question arrives or the period is over.
void Watchdog::sleep(std::unique_lock<std::mutex>& lock) {
    auto wanted = std::vector<pollfd>{{wake_[0], POLLIN, 0}};
    for (const auto& world : ended_) wanted.push_back({world->descriptor(), POLLIN, 0});
    for (const auto* flight : flights_)
        if (flight->world_ &&
            std::ranges::find(wanted, flight->world_->descriptor(), &pollfd::fd) == wanted.end())
            wanted.push_back({flight->world_->descriptor(), POLLIN, 0});
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
        for (auto* flight : flights_) {
            const auto active = flight->active_.load(std::memory_order_acquire);
            if (active != flight->seen_) {
                flight->seen_ = active;
                flight->since_ = now;
                if (flight->passed_of_.load(std::memory_order_relaxed) == active)
                    flight->since_ -= Duration(flight->passed_.load(std::memory_order_relaxed));
                flight->compare_after_ = 10 * Duration(period);
                flight->ended_compared_ = 0;
                continue;
            }
            if (active == 0) continue;
            const auto waited = now - flight->since_;
            if (flight->world_ && flight->ended_compared_ < flight->world_->ended().size())
                look_for_ended(*flight, active, waited);
            if (flight->world_ && waited >= flight->compare_after_) {
                flight->compare_after_ *= 2;
                look_for_mixture(*flight, active);
            }
            const auto timeout = Duration(flight->timeout_.load(std::memory_order_relaxed));
            if (waited < timeout || !flight->is_still(active)) continue;
            if (flight->is_start_ && waited < start_up && have_all_come(*flight)) continue;
            report(*flight, timeout);
        }
    }
}

/// True if the call that was seen is still in flight, so that what was read of it is of one call.
bool Flight::is_still(std::uint64_t active) const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return active_.load(std::memory_order_relaxed) == active;
}

PeerQuery::Answers Watchdog::ask(const Flight& flight, const std::vector<int>& ranks,
                                 Duration patience) const {
    const auto number = flight.is_message() ? 0 : flight.number();
    return flight.world_->ask(ranks, flight.key_, number, own_status(), patience, patience > brief);
}

/// Ends the job if this call waits for a rank that has ended its world: it cannot be interrupted.
void Watchdog::look_for_ended(Flight& flight, std::uint64_t active, Duration waited) {
    const auto& world = *flight.world_;
    const auto message = flight.is_message();
    const auto number = flight.number();
    const auto* label = flight.label_.load(std::memory_order_relaxed);
    const auto argument = flight.call().argument;
    const auto from_any = message && argument == any_source;
    if (!flight.is_still(active)) return;
    const auto heard = world.ended().size();
    if (message || number > 0) {
        auto asked = std::vector<int>{};
        for (const auto& [rank, since] : world.ended()) {
            const auto& ranks = label->ranks;
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
            for (const auto& [rank, status] : ask(flight, asked, brief).told)
                if (status.ended && !status.arrived) lost.push_back(rank);
        if (!flight.is_still(active)) return;
        // One rank that may still send to any of them is enough.
        const auto others = std::ssize(lost) < label->ranks.size() - 1;
        if (!lost.empty() && !(from_any && others))
            end(flight, {.reason = "peer_lost", .lost = lost},
                cat(label->named(lost), lost.size() == 1 ? " has" : " have",
                    " ended the world while another rank waits: ", place(flight)));
    }
    flight.ended_compared_ = heard;
}

/// Ends the job if a rank has started the collective that another blocks in, which MPI does not match. Each
/// rank asks the next one only: where there are both kinds, two neighbours differ.
void Watchdog::look_for_mixture(const Flight& flight, std::uint64_t active) const {
    const auto number = flight.number();
    const auto* label = flight.label_.load(std::memory_order_relaxed);
    const auto own = flight.started(number);
    const auto collective = flight.is_collective();
    if (!flight.is_still(active) || !collective || number == 0 || !own) return;
    const auto& ranks = label->ranks;
    auto here = 0;
    while (here < ranks.size() && ranks[here] != flight.world_->rank()) ++here;
    const auto next = ask(flight, {ranks[(here + 1) % ranks.size()]}, brief).told;
    if (next.empty() || next.begin()->second.started.value_or(*own) == *own || !flight.is_still(active))
        return;
    auto all = std::vector<int>{};
    for (int i = 0; i < std::min(ranks.size(), most_asked); ++i) all.push_back(ranks[i]);
    auto starting = std::vector<int>{};
    auto blocking = std::vector<int>{};
    (*own ? starting : blocking).push_back(flight.world_->rank());
    for (const auto& [rank, status] : ask(flight, all, patience).told)
        if (status.started) (*status.started ? starting : blocking).push_back(rank);
    if (!flight.is_still(active)) return;
    std::ranges::sort(starting);
    std::ranges::sort(blocking);
    end(flight, {.reason = "disagreement"},
        cat("MPI does not match a started call with a blocking one, and ", ranks_to_string(starting),
            starting.size() == 1 ? " has" : " have", " started what ", ranks_to_string(blocking),
            blocking.size() == 1 ? " blocks" : " block", " in: ", place(flight)));
}

bool Watchdog::have_all_come(const Flight& flight) const {
    if (!flight.world_) return false;
    const auto ranks = flight.label_.load(std::memory_order_relaxed)->ranks.list();
    const auto told = ask(flight, ranks, patience).told;
    return told.size() + 1 == ranks.size() &&
           std::ranges::all_of(told, [](const auto& answer) { return answer.second.arrived; });
}

RankStatus Watchdog::status(const PeerQuery& world, std::uint64_t key, std::uint64_t number,
                            const std::string& ring) const {
    auto status = RankStatus{.arrived = false, .text = "outside any call"};
    const Recorder* recorder = nullptr;
    for (const auto* flight : flights_) {
        if (flight->key_ == key && flight->world_.get() == &world) {
            status.arrived = number > 0 && flight->reached_.load(std::memory_order_relaxed) >= number;
            if (number > 0) status.started = flight->started(number);
            status.call = flight->collective(number);
        }
        if (flight->recorder_) recorder = flight->recorder_.get();
        if (flight->world_.get() == &world && !status.waits) status.waits = flight->awaited();
    }
    if (recorder) status.text = recorder->doing();
    // A step that is not an operation, which the record does not have.
    for (const auto* flight : flights_)
        if (const auto* phrase = flight->phrase_.load(std::memory_order_relaxed);
            phrase && flight->active_.load(std::memory_order_acquire) != 0)
            status.text = cat("in ", phrase);
    for (const auto& ended : ended_)
        if (ended.get() == &world) {
            status.arrived = number > 0 && world.reached(key) >= number;
            status.ended = true;
        }
    if (!ring.empty()) {
        const auto called = recorder ? recorder->collectives(ring) : std::nullopt;
        status.arrived = called && *called >= number;
        status.ended = status.ended || !called;
    }
    return status;
}

std::vector<Channel::PeerStatus> Watchdog::ask(const Flight& flight, const Ranks& ranks,
                                               const std::string& ring, std::uint64_t number) {
    const auto lock = std::lock_guard(mutex_);
    const auto& world = flight.world_;
    if (!world || ranks.size() > most_asked || ring.size() > PeerMessage::longest_text) return {};
    const auto answers = world->ask(ranks.list(), flight.key_, number, own_status(), patience, true, ring);
    return statuses_of(*world, ranks.list(), answers);
}

std::vector<Channel::PeerStatus> Watchdog::statuses_of(const PeerQuery& world, const std::vector<int>& ranks,
                                                       const PeerQuery::Answers& answers) {
    auto statuses = std::vector<Channel::PeerStatus>{};
    for (const auto rank : ranks) {
        const auto told = answers.told.find(rank);
        if (rank == world.rank())
            statuses.push_back({.arrived = true, .doing = {}});
        else if (told != answers.told.end())
            statuses.push_back({.arrived = told->second.arrived,
                                .doing = cat("is ", told->second.text),
                                .ended = told->second.ended});
        else if (contains(answers.mute, rank))
            statuses.push_back({.doing = missing_because::it_is_stopped, .answers = false});
        else if (world.is_local(rank))
            statuses.push_back({.doing = missing_because::its_process_ended, .answers = false});
        else
            statuses.push_back({.doing = {}, .known = false});
    }
    return statuses;
}

/// Writes the records of this process, since a peer has asked.
void Watchdog::write_records() const {
    const Recorder* written = nullptr;
    for (const auto* flight : flights_)
        if (auto* recorder = flight->recorder_.get(); recorder && recorder != written) {
            recorder->asked();
            written = recorder;
        }
}

/// Who is missing in the call of a flight, as far as the watchdogs of this host can tell; nobody without
/// them.
Attendance Watchdog::attendance(const Flight& flight) const {
    if (!flight.world_) return {};
    const auto& label = *flight.label_.load(std::memory_order_relaxed);
    const auto peer = flight.is_message() ? flight.call().argument : -1;
    auto ranks = std::vector<int>{};
    for (int i = 0; i < std::max(std::min(label.ranks.size(), most_asked), peer + 1); ++i)
        ranks.push_back(label.ranks[i]);
    const auto answers =
        ask(flight, peer < 0 ? ranks : std::vector{ranks[static_cast<std::size_t>(peer)]}, patience);
    auto statuses = statuses_of(*flight.world_, ranks, answers);
    auto known_mute = answers.mute;
    auto described = std::size_t{0};
    for (std::size_t i = 0; i < ranks.size() && described < most_described; ++i) {
        auto& status = statuses[i];
        if (status.arrived || !status.known || (peer >= 0 && std::cmp_not_equal(i, peer))) continue;
        ++described;
        if (const auto answer = answers.told.find(ranks[i]); answer != answers.told.end())
            append(status.doing, who_is_awaited(flight, ranks[i], answer->second, known_mute));
        else if (flight.is_start_ && !contains(answers.mute, ranks[i]))
            status.doing = "has not come to it, or is gone";
    }
    const auto here = static_cast<int>(std::ranges::find(ranks, flight.world_->rank()) - ranks.begin());
    auto attendance =
        Attendance::of(label, here, peer < 0 ? std::vector<int>{} : std::vector{peer}, statuses);
    if (attendance.missing.empty()) attendance.seen = difference(flight, answers);
    return attendance;
}

std::string Watchdog::difference(const Flight& flight, const PeerQuery::Answers& answers) {
    const auto number = flight.number();
    const auto own = flight.collective(number);
    if (own.empty()) return {};
    auto calls = std::vector<DifferingCall>{};
    add_call(calls, own, flight.world_->rank());
    for (const auto& [rank, status] : answers.told)
        if (!status.call.empty()) add_call(calls, status.call, rank);
    if (calls.size() == 1) return "if the calls differ, RANKMESH_CHECK=1 names them";
    return differing_calls(number, *flight.label_.load(std::memory_order_relaxed), std::move(calls)).why;
}

/// ` and waits for 5 [dp=2 tp=1]; rank 5 is stopped, or has no time to answer`, from rank to rank while each
/// waits for another one; "" for a rank that waits for none. The mute ranks are waited for once in a report.
std::string Watchdog::who_is_awaited(const Flight& flight, int rank, RankStatus status,
                                     std::vector<int>& mute) const {
    constexpr auto most_followed = 4;
    const auto& label = *flight.label_.load(std::memory_order_relaxed);
    auto text = std::string{};
    auto followed = std::vector<int>{flight.world_->rank(), rank};
    for (auto hop = 0; hop < most_followed && status.waits; ++hop) {
        const auto call = *status.waits;
        if (call.ranks.size() > most_asked) break;
        auto ranks = call.ranks;
        std::erase(ranks, followed.back());
        auto asked = ranks;
        std::erase_if(asked, [&](int each) { return contains(mute, each); });
        auto answers = flight.world_->ask(asked, call.key, call.number, own_status(), patience, true);
        mute.insert(mute.end(), answers.mute.begin(), answers.mute.end());
        // One that does not answer says more than one that waits as well.
        const auto is_silent = [&](int each) {
            return !answers.told.contains(each) && flight.world_->is_local(each) &&
                   each != flight.world_->rank();
        };
        auto found = std::ranges::find_if(ranks, is_silent);
        if (found == ranks.end())
            found = std::ranges::find_if(ranks, [&](int each) {
                const auto answer = answers.told.find(each);
                return answer != answers.told.end() && !answer->second.arrived;
            });
        if (found == ranks.end()) break;
        append(text, cat(" and waits for ", label.named({*found})));
        if (std::ranges::find(followed, *found) != followed.end()) break;
        followed.push_back(*found);
        if (is_silent(*found)) {
            append(text, cat("; rank ", *found, " ",
                             contains(mute, *found) ? missing_because::it_is_stopped
                                                    : missing_because::its_process_ended));
            break;
        }
        status = std::move(answers.told[*found]);
        append(text, cat("; rank ", *found, " is ", status.text));
    }
    return text;
}

/// `rank 0 [dp=0 tp=0] in all_reduce of ..., since 10:46:40`.
std::string Watchdog::place(const Flight& flight) const {
    return cat(flight.label_.load(std::memory_order_relaxed)->named({rank_}), " in ", flight.text(),
               ", since ", time_of_day(flight.since_));
}

void Watchdog::report(const Flight& flight, Duration timeout) const {
    const auto ranks = attendance(flight);
    auto text = cat("the timeout of ", to_text(timeout), " expired on ", place(flight));
    if (!ranks.arrived.empty())
        append(text, cat(": ", ranks.text(*flight.label_.load(std::memory_order_relaxed))));
    if (!ranks.seen.empty()) append(text, cat("; ", ranks.seen));
    auto why = RecordReason{.reason = "timeout", .arrived = ranks.arrived, .missing = ranks.missing};
    why.missing.insert(why.missing.end(), ranks.unreachable.begin(), ranks.unreachable.end());
    end(flight, std::move(why), text);
}

/// The job ends once the others have had time to ask this rank: where its process has ended, none answers.
void Watchdog::end(const Flight& flight, RecordReason why, const std::string& text) const {
    ending_.store(true, std::memory_order_release);
    const auto line = cat("rankmesh: ", text, "; the job is ended");
    if (flight.recorder_) {
        why.error = line;
        flight.recorder_->failed(std::move(why));
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
