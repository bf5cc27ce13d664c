// SPDX-License-Identifier: Apache-2.0
#include "explain/read/ras.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/error.hpp>

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
                              .axes = {},
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

}  // namespace rankmesh::of_ras
