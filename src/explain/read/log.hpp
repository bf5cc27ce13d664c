// SPDX-License-Identifier: Apache-2.0
// Reads logs of launchers, ranks and hosts.
#pragma once

#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/explain/record.hpp>

#include "explain/read/line.hpp"
#include "explain/read/signatures.hpp"
#include "explain/read/versions.hpp"

namespace rankmesh::of_log {

/// The logs of a job. Memory does not grow with their length.
class LogReader {
public:
    LogReader();

    /// Reads a log, which `shown` names. If the name says it is of one rank, `rank` is that rank. Returns
    /// true if it has a line that explain knows.
    bool read(std::istream& log, const std::string& shown, std::optional<int> rank = {});
    /// Returns what logs say of each rank.
    std::vector<FlightRecord> records() const;
    /// Returns what logs say about no rank, and the known faults whose symptoms they have.
    std::vector<LoggedLine> lines() const;

private:
    /// What stood in earlier lines of a file.
    struct Place {
        std::string file;
        std::int64_t line = 1;
        std::optional<int> of_file, rank, root;
        std::string host, group, header;
        std::string others;  // "30 ranks have launched up to operation 5", which RAS does not list
        int counted = 0;     // ranks of a communicator, as RAS counts them
        bool is_root = false, has_tags = false;  // [rank3]: begins lines
        std::vector<int> ended;
        CollectedLine collected;  // the line itself
    };

    bool read_raw(std::string_view raw);
    bool read_line(std::string_view line);
    bool has_symptom(std::string_view line);
    bool use(const Signature& row, std::string_view line, std::size_t begin, const Fields& fields);
    FlightRecord* of(int rank);
    std::string at(std::string_view line) const;
    void add_error(int rank, Says says, const std::string& words, std::string_view line);
    void add_line(std::string_view host, std::string words, bool is_fault, std::string_view line);
    void add_header(const std::string& words, std::string_view count, std::string_view line);
    void add_call(int rank, const Fields& fields, std::shared_ptr<const RecordedGroup> group);
    void add_status(int rank, const Fields& fields, const std::shared_ptr<const RecordedGroup>& group);
    void add_ended(std::optional<int> before, const Fields& fields, const std::string& words,
                   std::string_view line);

    std::vector<std::vector<std::uint8_t>> rows_;  // by the first two characters of patterns
    std::map<int, FlightRecord> ranks_;
    std::vector<LoggedLine> lines_;
    std::map<std::string, LoggedLine> without_rank_;  // by file and process, until a line names its rank
    std::map<const of_versions::Fault*, LoggedLine> symptoms_;
    std::string nccl_;  // the version that logs name
    int world_ = 1;
    Place place_;
};

}  // namespace rankmesh::of_log
