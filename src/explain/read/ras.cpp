// SPDX-License-Identifier: Apache-2.0
#include "explain/read/ras.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "explain/read/fields.hpp"

namespace rankmesh::of_ras {

using detail::cat;
using formats::Json;

using of_record::find;

/// ncclResult_t, in NCCL's words.
std::string result_text(std::int64_t result) {
    constexpr const char* texts[] = {"",
                                     "Unhandled CUDA error",
                                     "System error",
                                     "Internal error",
                                     "Invalid argument",
                                     "Invalid usage",
                                     "Remote process error"};
    return result > 0 && result < 7 ? texts[result] : cat("error ", result);
}

constexpr auto in_progress = 7;  // ncclInProgress

/// A device of a process, which is the same rank in all communicators. `cuda_dev` is not unique on a host.
using Device = std::tuple<std::string, std::int64_t, std::int64_t>;
Device device_of(const Json& rank) {
    return {of_record::text_or(rank, "host"), of_record::whole_or(rank, "pid", -1),
            of_record::whole_or(rank, "nvml_dev", -1)};
}

const Json::Array& listed(const Json& communicator, std::string_view key) {
    static const auto none = Json::Array{};
    const auto* value = find(communicator, key);
    return value ? of_record::list(*value, key) : none;
}

class Report {
public:
    Report(const std::string& file, std::vector<LoggedLine>& lines) : file_(file), lines_(lines) {}

    std::vector<FlightRecord> read(const Json& json) {
        const auto& communicators = listed(json, "communicators");
        const auto size_of = [](const Json& one) {
            of_record::object(one, "communicators");
            return of_record::whole_or(one, "size", 0);
        };
        const auto world = std::ranges::max_element(communicators, {}, size_of);
        if (world == communicators.end())
            throw UsageError("is a report of NCCL's RAS without a communicator");
        size_ = size_of(*world);
        if (size_ < 1 || size_ > of_record::most_world) of_record::wrong("size", "number of ranks");
        for (const auto* key : {"ranks", "missing_ranks"})
            for (const auto& rank : listed(*world, key)) {
                of_record::object(rank, key);
                const auto number = of_record::rank_of(of_record::whole_or(rank, "rank", -1), "rank");
                if (number >= size_) of_record::wrong("rank", cat("rank of 0 to ", size_ - 1));
                rank_of_[device_of(rank)] = number;
            }
        for (const auto& one : communicators) read_communicator(one);
        auto all = std::vector<FlightRecord>{};
        for (auto& [rank, record] : records_) all.push_back(std::move(record));
        return all;
    }

private:
    FlightRecord& of(int rank, const std::string& host) {
        auto& record = records_[rank];
        record.file = file_;
        record.rank = rank;
        record.world_size = static_cast<int>(size_);
        record.is_torch = record.is_log = true;
        record.engine = "NCCL RAS";
        record.host = host;
        return record;
    }

    void add_error(const Json& rank, int number, const std::string& text, const char* reason = "error") {
        auto& record = of(number, of_record::text_or(rank, "host"));
        if (!record.error.empty()) return;
        record.reason = reason;
        record.error = text;
        record.error_at = file_;
    }

    void read_communicator(const Json& one) {
        const auto name = cat("communicator ", detail::excerpt(of_record::text_or(one, "hash")));
        auto ranks = std::vector<int>{};
        for (const auto* key : {"ranks", "missing_ranks"})
            for (const auto& rank : listed(one, key)) {
                of_record::object(rank, key);
                const auto known = rank_of_.find(device_of(rank));
                if (known != rank_of_.end()) ranks.push_back(known->second);
            }
        std::ranges::sort(ranks);
        const auto unique = std::ranges::adjacent_find(ranks) == ranks.end();
        if (std::ssize(ranks) != of_record::whole_or(one, "size", 0) || !unique) {
            lines_.push_back(
                {file_, "", cat(name, " is left out: its ranks are not those of the largest one"), false});
            return;
        }
        for (const auto& rank : listed(one, "missing_ranks")) read_missing(rank, name);
        for (const auto& rank : listed(one, "ranks")) read_status(rank, name);
        read_counts(one, name, ranks);
    }

    void read_missing(const Json& rank, const std::string& name) {
        const auto* status = find(rank, "status");
        const auto is_dead = status && of_record::flag_or(*status, "considered_dead", false);
        const auto is_silent = status && of_record::flag_or(*status, "unresponsive", false);
        const auto process = cat("process ", of_record::whole_or(rank, "pid", -1));
        add_error(rank, rank_of_.at(device_of(rank)),
                  is_dead     ? cat("is considered dead by RAS: its ", process, " cannot be reached")
                  : is_silent ? cat("does not answer RAS: ", process, " is stopped or cut off")
                              : cat("has ended ", name, ", or never made it; ", process, " answers"),
                  is_dead || is_silent ? "ended" : "error");
    }

    void read_status(const Json& rank, const std::string& name) {
        const auto number = rank_of_.at(device_of(rank));
        of(number, of_record::text_or(rank, "host"));
        const auto* status = find(rank, "status");
        if (!status) return;
        for (const auto& [key, what] : {std::pair("init_state", "initialisation of "), {"async_error", ""}})
            if (const auto result = of_record::whole_or(*status, key, 0);
                result != 0 && result != in_progress)
                add_error(rank, number, cat(what, name, ": ", result_text(result)));
        if (of_record::flag_or(*status, "abort_flag", false))
            add_error(rank, number, cat("has aborted ", name));
    }

    /// Of each operation, the ranks that have launched more calls than others wait for these.
    void read_counts(const Json& one, const std::string& name, const std::vector<int>& ranks) {
        auto counts = std::map<std::string, std::map<int, std::int64_t>>{};
        for (const auto& rank : listed(one, "ranks"))
            if (const auto* all = find(rank, "collective_counts"))
                for (const auto& [operation, count] : of_record::object(*all, "collective_counts"))
                    counts[operation][rank_of_.at(device_of(rank))] =
                        of_record::whole(count, "collective_counts");
        for (const auto& [operation, by_rank] : counts) {
            auto least = std::numeric_limits<std::int64_t>::max();
            for (const auto& [rank, count] : by_rank) least = std::min(least, count);
            const auto group = std::make_shared<const RecordedGroup>(
                RecordedGroup{.name = cat(operation, " of ", name),
                              .description = cat(operation, " of ", name),
                              .ranks = ranks});
            auto call = RecordedOperation{};
            call.backend = "nccl";
            call.operation = operation;
            const auto shared = std::make_shared<const RecordedOperation>(std::move(call));
            for (const auto& [rank, count] : by_rank) {
                auto& record = records_.at(rank);
                record.groups.push_back(group);
                record.statuses.push_back({group, std::min(count, least + 1), std::min(count, least)});
                if (count == least) continue;
                auto entry = RecordedEntry{};
                entry.id = std::ssize(record.entries);
                entry.number = least + 1;
                entry.group = group;
                entry.call = shared;
                entry.state = RecordedState::started;
                record.entries.push_back(std::move(entry));
            }
        }
    }

    const std::string& file_;
    std::vector<LoggedLine>& lines_;
    std::int64_t size_ = 0;
    std::map<Device, int> rank_of_;
    std::map<int, FlightRecord> records_;
};

std::vector<FlightRecord> read_report(const Json& json, const std::string& file,
                                      std::vector<LoggedLine>& lines) {
    try {
        return Report(file, lines).read(json);
    } catch (const UsageError& error) {
        throw UsageError(cat(detail::excerpt(file), " ", error.what()));
    }
}

// --- the client: lines of text over TCP, as src/ras/client_support.cc of NCCL answers them

constexpr auto most_report = std::size_t{1} << 28;
using Stream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// Connects a stream to `HOST` or `HOST:PORT`; null: errno says why not.
Stream connected(const std::string& address, int timeout_ms) {
    const auto colon = address.rfind(':');
    const auto is_port = colon != std::string::npos && address.find(']', colon) == std::string::npos;
    auto host = address.substr(0, is_port ? colon : std::string::npos);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    auto hints = addrinfo{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const auto port = is_port ? address.substr(colon + 1) : "28028";  // NCCL_RAS_CLIENT_PORT
    if (const auto error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
        throw UsageError(cat("NCCL's RAS is asked at ras://HOST:PORT, but ", detail::in_quotes(address),
                             " is not a host and port: ", ::gai_strerror(error)));
    const auto all = std::unique_ptr<addrinfo, void (*)(addrinfo*)>(found, ::freeaddrinfo);
    for (const auto* one = all.get(); one; one = one->ai_next) {
        const auto socket = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
        if (socket < 0) continue;
        const auto limit = timeval{timeout_ms / 1000, timeout_ms % 1000 * 1000};
        ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (::connect(socket, one->ai_addr, one->ai_addrlen) == 0)
            if (auto* stream = ::fdopen(socket, "r+")) return {stream, std::fclose};
        const auto reason = errno;
        ::close(socket);
        errno = reason;
    }
    return {nullptr, std::fclose};
}

std::string ask(const std::string& address, int timeout_ms) {
    const auto fail = [&](const std::string& why) {
        throw UsageError(cat("NCCL's RAS at ", detail::excerpt(address), " gave no report: ", why,
                             "; RAS listens at localhost:28028 on hosts of the job, or at NCCL_RAS_ADDR"));
    };
    const auto stream = connected(address, timeout_ms);
    if (!stream) fail(std::strerror(errno));
    const auto send = [&](const char* command) {
        std::fseek(stream.get(), 0, SEEK_CUR);  // between reading and writing
        if (std::fputs(command, stream.get()) < 0 || std::fflush(stream.get()) != 0)
            fail(std::strerror(errno));
    };
    const auto answer = [&](const char* command) {
        send(command);
        char line[4096] = "";
        errno = 0;
        if (!std::fgets(line, sizeof line, stream.get()))
            fail(errno == EAGAIN ? "it does not answer" : "it closed the connection");
        return std::string(line);
    };
    if (const auto hello = answer("CLIENT PROTOCOL 2\n"); !hello.starts_with("SERVER PROTOCOL "))
        fail(cat("it answers ", detail::in_quotes(hello), " and is not RAS"));
    answer("SET FORMAT json\n");  // an error before NCCL 2.28, which then sends text
    send("VERBOSE STATUS\n");
    auto report = std::string{};
    auto bytes = std::string(std::size_t{1} << 16, '\0');
    errno = 0;
    while (const auto count = std::fread(bytes.data(), 1, bytes.size(), stream.get())) {
        report.append(bytes, 0, count);
        if (report.size() > most_report) fail(cat("it has more than ", most_report, " bytes"));
    }
    if (std::ferror(stream.get()) != 0) fail(errno == EAGAIN ? "it does not answer" : std::strerror(errno));
    if (report.empty()) fail("it closed the connection");
    return report;
}

}  // namespace rankmesh::of_ras
