// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/record/call_ring.hpp"

namespace rankmesh::detail {

/// Why a record is written, and the lists of ranks that its error has.
struct RecordReason {
    std::string reason;  // `timeout`, `signal`: docs/flight-record.md lists them
    std::string error = {};
    std::vector<int> arrived = {};
    std::vector<int> missing = {};
    std::vector<int> lost = {};
    std::vector<int> outside = {};
};

/// Nanoseconds since 1970.
inline std::int64_t unix_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

/// The flight record of one rank: the last calls on each of its communicators, always kept, and written as a
/// file of JSON when something goes wrong and a folder for it is named.
///
/// Worlds of some of its ranks and of its survivors share it. Every function may be called by any thread.
class Recorder {
public:
    struct Owner {
        int rank = 0;
        int size = 1;
        std::string engine = {};
        std::string host = {};
        std::int64_t started_ns = unix_ns();  // when this rank's world began
    };
    /// `folder` is "" if no file is to be written but on request.
    static std::shared_ptr<Recorder> make(Owner owner, const std::string& folder, int signal);

    /// The ring of a new communicator; `roots` as CallRing takes them.
    std::shared_ptr<CallRing> ring(const std::string& key, std::shared_ptr<const std::vector<int>> roots);

    /// A mesh that the program has declared elsewhere, as torch's groups have; `placed` are its ranks, those
    /// of the record. The last one is in the record.
    void declare(std::string mesh, std::vector<int> placed);

    /// A name for a world of these ranks of the record's, the same on all of them and different each time.
    std::string name_of_part(const std::vector<int>& ranks);

    /// Notes that this rank is in a collective of its world, `what` in words, during its lifetime.
    class Phase {
    public:
        Phase(Recorder* recorder, const char* what) : recorder_(recorder) { set(what); }
        ~Phase() { set(nullptr); }
        Phase& operator=(Phase&&) = delete;

    private:
        void set(const char* what) const {
            if (!recorder_) return;
            recorder_->phase_since_.store(coarse_now(), std::memory_order_relaxed);
            recorder_->phase_.store(what, std::memory_order_release);
        }

        Recorder* const recorder_;
    };

    /// `in barrier, call number 3 on 'tp' of mesh dp=2 tp=2, for 2.1 s`, or what it did last outside any
    /// call.
    std::string doing() const;
    /// How many collectives it has called on the communicator of that key; nothing if it has none.
    std::optional<std::uint64_t> collectives(const std::string& key) const;

    /// Writes the record if `error` is the first one that a call of this world throws; UsageErrors are not.
    /// `roots` as CallRing takes them.
    void failed(const std::exception_ptr& error, const std::vector<int>* roots) noexcept;
    /// Writes the record of an error that ends the process and is not thrown.
    void failed(RecordReason reason) noexcept;
    /// Writes the record of an exception of the program that ends this rank.
    void program_failed(std::string_view what) noexcept;
    /// Writes the record, since a peer waits for this rank longer than its timeout.
    void asked() noexcept;
    /// Writes the record for a signal, or before the process ends; keeps the reason of an error.
    void write(const std::string& reason, const std::string& error) noexcept;
    /// Writes the record to a file; throws UsageError if that cannot be written.
    void write_to(const std::string& path) const;
    /// Lets the next error write again: the survivors of one go on.
    void renew() noexcept;

    /// Writes the records of all ranks of this process as `write` does.
    static void write_all(const std::string& reason, const std::string& error) noexcept;
    /// Writes the records of all ranks of this process as `failed` does.
    static void all_failed(const RecordReason& reason) noexcept;

private:
    Recorder(Owner owner, std::string folder);
    std::vector<std::shared_ptr<CallRing>> rings() const;
    std::string json(const RecordReason& why, std::vector<std::shared_ptr<CallRing>> rings) const;
    void write_locked() noexcept;
    /// Those of this process; none if memory or the lock cannot be had.
    static std::vector<std::shared_ptr<Recorder>> all() noexcept;

    const Owner owner_;
    const std::string folder_;
    const int process_;
    int number_ = 1;  // among the worlds of this process that write a file of this rank there
    const std::shared_ptr<std::atomic<std::uint64_t>> ids_ = std::make_shared<std::atomic<std::uint64_t>>(0);
    std::atomic<const char*> phase_ = nullptr;
    std::atomic<std::int64_t> phase_since_ = 0;

    mutable std::mutex mutex_;
    std::vector<std::weak_ptr<CallRing>> rings_;
    std::string mesh_;                       // that was declared; "": none
    std::vector<int> placed_;                // its ranks
    std::map<std::vector<int>, int> parts_;  // how many worlds there were of those ranks

    std::mutex writing_;
    RecordReason why_;  // of the last file
    bool has_error_ = false;
    bool has_calls_ = false;  // a file was written while the rank had communicators
    std::atomic<std::int64_t> asked_at_ = -1'000'000'000;
};

/// Has std::terminate write the records before the handler that was installed until now.
void write_records_on_terminate();
/// Has a signal write the records, from now on until the process ends, on a thread of its own.
void write_records_on_signal(int signal);
/// Has the records written again and again, until the process ends. Later calls change nothing.
void write_records_every(std::chrono::seconds pause);
/// What RANKMESH_RECORD_EVERY says: how often records are written to `folder` while the job runs; 0: never.
/// Throws UsageError if the value is not a whole number of seconds, or if there is no folder.
std::chrono::seconds record_pause(const std::string& folder);
/// The pause of `write_records_every`; 0 if it was not called.
std::chrono::seconds records_written_every();

/// What a flight record is written from.
struct RecordContent {
    const Recorder::Owner& owner;
    const RecordReason& why;
    std::vector<std::shared_ptr<CallRing>> rings;
    std::string mesh = {};  // that the program declared; "": none
    std::vector<int> placed = {};
    std::chrono::seconds every = {};  // until the next record; 0: none is due
};

/// Writes a file under another name and renames it, so that nobody reads half of it; "", or what went wrong.
/// Others may write in the folder: the other name is a new file's, which nobody can foresee.
std::string replace_file(const std::filesystem::path& path, const std::string& text);

/// The flight record as JSON, in the schema of docs/flight-record.md.
std::string record_json(const RecordContent& content);

}  // namespace rankmesh::detail
