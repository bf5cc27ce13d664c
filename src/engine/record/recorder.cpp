// SPDX-License-Identifier: Apache-2.0
#include "engine/record/recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

#include "engine/diagnosis/failure.hpp"
#include "engine/fork.hpp"
#include "engine/record/recorded.hpp"
#include "engine/system.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {
namespace {

/// Those of this process, used under the lock of it. Never destroyed: other threads may end the process
/// meanwhile.
std::vector<std::weak_ptr<Recorder>>& recorders() {
    static auto* const recorders = new std::vector<std::weak_ptr<Recorder>>;
    return *recorders;
}

/// Locks a mutex whose holder may be the thread that terminates: gives up after a second. Not a timed mutex,
/// whose locks the thread sanitizer does not see.
std::unique_lock<std::mutex> lock_soon(std::mutex& mutex) {
    for (auto turn = 0; turn < 1000; ++turn) {
        if (auto lock = std::unique_lock(mutex, std::try_to_lock)) return lock;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
}

/// `2.1 s`, `12 s`, `30 min`.
std::string lasted(std::int64_t nanoseconds) {
    const auto tenths = std::max<std::int64_t>(nanoseconds, 0) / 100'000'000;
    if (tenths < 100) return cat(tenths / 10, ".", tenths % 10, " s");
    return tenths < 6000 ? cat(tenths / 10, " s") : cat(tenths / 600, " min");
}

std::string text_of(const RecordedCall& recorded) {
    return cat(numbered(recorded.call, recorded.number, recorded.label ? &recorded.label->ranks : nullptr),
               recorded.label ? cat(" on ", recorded.label->text()) : std::string{});
}

std::optional<RecordReason> reason_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const Timeout& timeout) {
        return RecordReason{.reason = "timeout",
                            .error = timeout.what(),
                            .arrived = timeout.arrived,
                            .missing = timeout.missing};
    } catch (const PeerLost& lost) {
        return RecordReason{.reason = "peer_lost", .error = lost.what(), .lost = lost.ranks};
    } catch (const Disagreement& differ) {
        return RecordReason{.reason = "disagreement", .error = differ.what(), .outside = differ.ranks};
    } catch (const EngineFailure& failure) {
        return RecordReason{.reason = "engine_failure", .error = failure.what()};
    } catch (...) {
        return std::nullopt;
    }
}

}  // namespace

std::string replace_file(const std::filesystem::path& path, const std::string& text) {
    const auto parent = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    auto ignored = std::error_code{};
    std::filesystem::create_directories(parent, ignored);
    const auto failed = [&](const char* what, int error) {
        return cat("'", path.string(), "' cannot be ", what, ": ", std::generic_category().message(error));
    };
    const auto folder = open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return failed("written", errno);
    const auto name = path.filename().string();
    const auto temporary = cat(name, ".", new_secret(), ".tmp");
    auto wrong = std::string{};
    if (const auto error = write_new_file(folder, temporary, text, 0666)) {
        wrong = failed("written", error);
    } else if (renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) {
        wrong = failed("replaced", errno);
        unlinkat(folder, temporary.c_str(), 0);
    }
    close(folder);
    return wrong;
}

Recorder::Recorder(Owner owner, std::string folder)
    : owner_(std::move(owner)), folder_(std::move(folder)), process_(getpid()) {}

std::shared_ptr<Recorder> Recorder::make(Owner owner, const std::string& folder, int signal) {
    auto recorder = std::shared_ptr<Recorder>(new Recorder(std::move(owner), folder));
    auto& known = recorders();
    {
        const auto lock = std::lock_guard(process_mutex());
        std::erase_if(known, [](const auto& weak) { return weak.expired(); });
        auto taken = std::vector<int>{};
        for (const auto& weak : known)
            if (const auto other = weak.lock();
                other && other->folder_ == folder && other->owner_.rank == recorder->owner_.rank)
                taken.push_back(other->number_);
        while (std::ranges::find(taken, recorder->number_) != taken.end()) ++recorder->number_;
        known.push_back(recorder);
    }
    if (!folder.empty()) write_records_on_terminate();
    if (!folder.empty() && signal != 0) write_records_on_signal(signal);
    return recorder;
}

std::shared_ptr<CallRing> Recorder::ring(const std::string& key,
                                         std::shared_ptr<const std::vector<int>> roots) {
    auto ring = std::make_shared<CallRing>(key, ids_, std::move(roots));
    const auto lock = std::lock_guard(mutex_);
    std::erase_if(rings_, [](const auto& weak) { return weak.expired(); });
    rings_.push_back(ring);
    return ring;
}

void Recorder::declare(std::string mesh, std::vector<int> placed) {
    const auto lock = std::lock_guard(mutex_);
    mesh_ = std::move(mesh);
    placed_ = std::move(placed);
}

std::string Recorder::name_of_part(const std::vector<int>& ranks) {
    const auto lock = std::lock_guard(mutex_);
    const auto turn = ++parts_[ranks];
    return cat(" in ", ranks_to_string(ranks), turn > 1 ? cat(" ", turn) : std::string{});
}

std::vector<std::shared_ptr<CallRing>> Recorder::rings() const {
    auto rings = std::vector<std::shared_ptr<CallRing>>{};
    const auto lock = std::lock_guard(mutex_);
    for (const auto& weak : rings_)
        if (auto ring = weak.lock()) rings.push_back(std::move(ring));
    return rings;
}

std::string Recorder::doing() const {
    const auto* phase = phase_.load(std::memory_order_acquire);
    auto since = phase_since_.load(std::memory_order_relaxed);
    const auto now = coarse_now();
    auto in = std::optional<RecordedCall>{};
    auto pending = std::optional<RecordedCall>{};
    auto last = std::optional<RecordedCall>{};
    for (const auto& ring : rings())
        for (auto& recorded : ring->calls()) {
            if (recorded.state == CallState::started) {
                if (!in || in->changed < recorded.changed) in = std::move(recorded);
            } else if (recorded.state == CallState::scheduled) {
                if (!pending || recorded.id < pending->id) pending = std::move(recorded);
            } else {  // completed or failed
                if (!last || std::pair(last->changed, last->id) < std::pair(recorded.changed, recorded.id))
                    last = std::move(recorded);
            }
        }
    if (in) return cat("in ", text_of(*in), ", for ", lasted(now - in->changed));
    if (phase) return cat("in ", phase, " for ", lasted(now - since));
    auto text = std::string("outside any call");
    if (last) since = std::max(since, last->changed);
    if (pending) since = std::max(since, pending->created);
    if (since > 0) append(text, cat(" for ", lasted(now - since)));
    if (pending) append(text, cat(", has started ", text_of(*pending), " and not waited for it"));
    if (last)
        append(text, cat(last->state == CallState::failed ? ", last failed in " : ", last completed ",
                         text_of(*last)));
    return text;
}

std::optional<std::uint64_t> Recorder::collectives(const std::string& key) const {
    for (const auto& ring : rings())
        if (ring->key() == key) return ring->collectives();
    return std::nullopt;
}

void Recorder::failed(const std::exception_ptr& error, const std::vector<int>* roots) noexcept {
    if (folder_.empty()) return;
    try {
        auto why = reason_of(error);
        if (!why) return;
        for (auto* list : {&why->arrived, &why->missing, &why->lost, &why->outside})
            *list = in_record(std::move(*list), roots);
        failed(std::move(*why));
    } catch (...) {  // without memory there is no record
    }
}

void Recorder::failed(RecordReason reason) noexcept {
    if (folder_.empty()) return;
    const auto lock = lock_soon(writing_);
    if (!lock || has_error_) return;
    has_error_ = true;
    why_ = std::move(reason);
    write_locked();
}

void Recorder::program_failed(std::string_view what) noexcept {
    try {
        failed({.reason = "exception", .error = std::string(what)});
    } catch (...) {  // without memory there is no record
    }
}

void Recorder::asked() noexcept {
    // All that wait ask, at nearly the same time.
    const auto now = coarse_now();
    auto before = asked_at_.load();
    if (now - before < 1'000'000'000 || !asked_at_.compare_exchange_strong(before, now)) return;
    write("request", {});
}

void Recorder::write(const std::string& reason, const std::string& error) noexcept {
    if (folder_.empty()) return;
    const auto lock = lock_soon(writing_);
    // What stands from an error is not asked for again: the communicators may be gone by now.
    if (!lock || (has_error_ && reason == "request")) return;
    try {
        if (!has_error_) why_ = {.reason = reason, .error = error};
    } catch (...) {
        return;
    }
    write_locked();
}

void Recorder::renew() noexcept {
    const auto lock = std::lock_guard(writing_);
    has_error_ = false;
}

void Recorder::write_locked() noexcept {
    if (process_ != getpid()) return;  // forked off: the file is the parent's
    try {
        const auto name = cat("rank-", owner_.rank, number_ > 1 ? cat(".", number_) : std::string{}, ".json");
        auto rings = this->rings();
        // What stands of communicators that have all ended is not asked for again.
        if (has_calls_ && why_.reason == "request" && rings.empty()) return;
        has_calls_ = has_calls_ || !rings.empty();
        const auto wrong = replace_file(std::filesystem::path(folder_) / name, json(why_, std::move(rings)));
        if (!wrong.empty())
            std::fprintf(stderr, "rankmesh: the flight record of rank %d is not written: %s\n", owner_.rank,
                         wrong.c_str());
    } catch (...) {  // a record must not change what is recorded
    }
}

void Recorder::write_to(const std::string& path) const {
    const auto wrong = replace_file(path, json({.reason = "request"}, rings()));
    if (!wrong.empty()) throw UsageError(cat("the flight record is not written: ", wrong));
}

std::string Recorder::json(const RecordReason& why, std::vector<std::shared_ptr<CallRing>> rings) const {
    auto content = RecordContent{
        .owner = owner_, .why = why, .rings = std::move(rings), .every = records_written_every()};
    {
        const auto lock = std::lock_guard(mutex_);
        content.mesh = mesh_;
        content.placed = placed_;
    }
    return record_json(content);
}

std::vector<std::shared_ptr<Recorder>> Recorder::all() noexcept {
    auto& known = recorders();
    auto all = std::vector<std::shared_ptr<Recorder>>{};
    try {
        const auto lock = lock_soon(process_mutex());
        if (!lock) return {};
        for (const auto& weak : known)
            if (auto recorder = weak.lock()) all.push_back(std::move(recorder));
    } catch (...) {
        return {};
    }
    return all;
}

void Recorder::write_all(const std::string& reason, const std::string& error) noexcept {
    for (const auto& recorder : all()) recorder->write(reason, error);
}

void Recorder::all_failed(const RecordReason& reason) noexcept {
    for (const auto& recorder : all()) {
        try {
            recorder->failed(RecordReason(reason));
        } catch (...) {  // without memory there is no record
        }
    }
}

void record_failure(const CommunicatorState& state, const RecordPlaces& record, bool began) noexcept {
    try {
        throw;
    } catch (const UsageError&) {
        if (began)
            state.ring->retract(record.first);
        else
            recorded_end(state, record, CallState::scheduled);
    } catch (...) {
        recorded_end(state, record, CallState::failed);
        state.world->cause->set_by_exception();
        if (const auto& recorder = state.world->recorder())
            recorder->failed(std::current_exception(), state.world->roots().get());
    }
}

}  // namespace rankmesh::detail
