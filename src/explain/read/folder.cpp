// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include <rankmesh/explain/read.hpp>

#include "explain/read/fields.hpp"
#include "explain/read/log.hpp"
#include "explain/read/ras.hpp"
#include "formats/file.hpp"
#include "formats/text.hpp"

namespace rankmesh {

std::optional<int> of_record::rank_in_name(const std::string& file) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    auto stem = std::string_view(file);
    // Endings such as `.json`; a part with a number or an underscore belongs to the name.
    for (auto dot = stem.rfind('.'); dot != std::string_view::npos && dot > 0; dot = stem.rfind('.')) {
        if (std::ranges::any_of(stem.substr(dot), [&](char c) { return is_digit(c) || c == '_'; })) break;
        stem = stem.substr(0, dot);
    }
    const auto number_at = [&](std::size_t begin) {
        auto rank = 0;
        const auto [end, error] = std::from_chars(stem.data() + begin, stem.data() + stem.size(), rank);
        const auto rest = stem.substr(static_cast<std::size_t>(end - stem.data()));
        // An address such as 10.0.0.5 is not a rank.
        const auto is_rank =
            rest.empty() || rest[0] == '_' || (rest.size() > 1 && rest[0] == '.' && !is_digit(rest[1]));
        return error == std::errc{} && rank >= 0 && is_rank ? std::optional(rank) : std::nullopt;
    };
    for (const std::string_view before : {"_", "rank_", "rank-"})
        if (const auto at = stem.rfind(before);
            at != std::string_view::npos && at + before.size() < stem.size())
            if (const auto rank = number_at(at + before.size())) return rank;
    auto begin = stem.size();
    while (begin > 0 && is_digit(stem[begin - 1])) --begin;
    const auto is_of_address = begin > 1 && stem[begin - 1] == '.' && is_digit(stem[begin - 2]);
    return begin == stem.size() || is_of_address ? std::nullopt : number_at(begin);
}

namespace of_folder {

constexpr std::string_view when_written =
    "; ranks write records to RANKMESH_RECORD when a call fails, and with RANKMESH_RECORD_EVERY=10s while "
    "they run";
constexpr std::string_view ras = "ras://";
constexpr auto most_bytes = std::uintmax_t{1} << 28;

/// Returns what a folder holds but folders, sorted by name. A link that leads nowhere, or to itself, is a
/// file. If it holds only folders, returns what torchrun wrote there, `depth` folders deep:
/// `ID/attempt_0/3/stderr.log`. Folders of records are of several jobs.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder, int depth = 0) {
    auto files = std::vector<std::filesystem::path>{};
    auto folders = std::vector<std::filesystem::path>{};
    try {
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            auto error = std::error_code{};
            if (!entry.is_directory(error))
                files.push_back(entry.path());
            else if (!entry.is_symlink(error))
                folders.push_back(entry.path());
        }
    } catch (const std::filesystem::filesystem_error& error) {
        throw UsageError(
            detail::cat(detail::in_quotes(folder.string()), " cannot be read: ", error.code().message(),
                        error.code() == std::errc::no_such_file_or_directory ? when_written : ""));
    }
    std::ranges::sort(files);
    std::ranges::sort(folders);
    if (depth > 0 && files.empty())
        for (const auto& inside : folders)
            for (auto& file : files_of(inside, depth - 1))
                if (file.string().find("/attempt_") != std::string::npos) files.push_back(std::move(file));
    return files;
}

std::string content_of(const std::filesystem::path& path, const std::string& shown) {
    const auto refuse = [&](const std::string& why) {
        throw UsageError(detail::cat(detail::excerpt(shown), " ", why));
    };
    auto error = std::error_code{};
    if (!std::filesystem::is_regular_file(path, error)) refuse("is no regular file");
    const auto size = std::filesystem::file_size(path, error);
    if (!error && size > most_bytes)
        refuse(detail::cat("has ", size, " bytes; at most ", most_bytes, " are read"));
    return formats::content_of(path, detail::excerpt(shown), error ? most_bytes : size);
}

/// Reads files of all kinds. The content says which kind a file is.
class Reader {
public:
    explicit Reader(bool with_folder) : with_folder_(with_folder) {}

    void read(const std::filesystem::path& file) {
        const auto name = file.filename().string();
        const auto shown = with_folder_ || file.string().starts_with(ras) ? file.string() : name;
        try {
            if (file.string().starts_with(ras)) {
                const auto report = of_ras::ask(file.string().substr(ras.size()));
                report.starts_with('{') ? record(report, shown)
                                        : log(std::istringstream(report), shown, shown);
            } else if (name.ends_with(".tmp"))
                throw UsageError(detail::cat(detail::excerpt(shown),
                                             " was not written to its end: its process ended meanwhile"));
            else if (is_log(file, shown))
                log(std::ifstream(file), shown, name);
            else
                record(content_of(file, shown), shown);
        } catch (const UsageError& error) {
            result_.unread.push_back({shown, error.what(), of_record::rank_in_name(name)});
        }
    }

    /// Adds what logs say to the records of their ranks.
    RecordFolder result() {
        auto from_logs = logs_.records();
        from_logs.insert(from_logs.begin(), reported_.begin(), reported_.end());
        auto groups = Groups{};
        for (const auto& dump : result_.records) groups.insert(dump.groups.begin(), dump.groups.end());
        const auto has_dumps = std::ranges::any_of(result_.records, &FlightRecord::is_torch);
        auto places = std::map<int, std::size_t>{};  // of the first record of each rank
        for (std::size_t i = 0; i < result_.records.size(); ++i) places.emplace(result_.records[i].rank, i);
        for (auto& log : from_logs) {
            // A dump has more of a call than a log, so that the two must not be compared.
            if (has_dumps && log.engine == "logs") as_statuses(log, groups);
            const auto [place, is_new] = places.emplace(log.rank, result_.records.size());
            if (is_new) {
                result_.records.push_back(std::move(log));
                continue;
            }
            auto& known = result_.records[place->second];
            if (known.host.empty()) known.host = log.host;
            if (!known.reason.empty() || log.reason.empty()) continue;
            known.reason = log.reason;
            known.error = log.error;
            known.error_at = log.error_at;
            known.missing = log.missing;
        }
        const auto lines = logs_.lines();
        result_.lines.insert(result_.lines.end(), lines.begin(), lines.end());
        return std::move(result_);
    }

private:
    struct Coded {
        std::string_view magic, text, reader;
    };
    static constexpr auto coded = std::to_array<Coded>({{"\x1f\x8b", "compressed by gzip", "zcat"},
                                                        {"\x28\xb5\x2f\xfd", "compressed by zstd", "zstdcat"},
                                                        {"\xfd\x37zXZ", "compressed by xz", "xzcat"},
                                                        {"BZh", "compressed by bzip2", "bzcat"},
                                                        {"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
                                                        {"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8"}});

    /// Returns true for lines of JSON, and false for a record, which is one object.
    static bool is_json_lines(std::string_view text) {
        const auto end = std::min(text.find('\n'), text.size());
        if (text.find_first_of("\"}", 1) != text.find_first_not_of(" \t\r\n", 1)) return true;  // {'loss': 1}
        try {
            return of_record::parsed(text.substr(0, end)).is_object() &&
                   (!formats::trimmed(text.substr(end)).empty() ||
                    of_log::collected_line(text.substr(0, end)));
        } catch (const UsageError&) {
            return false;
        }
    }

    static bool is_log(const std::filesystem::path& file, const std::string& shown) {
        auto error = std::error_code{};
        if (!std::filesystem::is_regular_file(file, error)) return false;
        const auto head = formats::content_of(file, detail::excerpt(shown), 1 << 16);
        for (const auto& [magic, text, reader] : coded)
            if (head.starts_with(magic)) {
                const auto name = detail::excerpt(file.filename().string());
                throw UsageError(detail::cat(detail::excerpt(shown), " is ", text, ": run `", reader, " ",
                                             name, " > ", name, ".txt` and explain ", name, ".txt"));
            }
        // A log that was cut while a program wrote it begins with bytes 0.
        constexpr auto blanks = std::string_view(" \t\r\n\0", 5);
        const auto begin = std::string_view(head).find_first_not_of(blanks);
        if (begin == std::string::npos) return head.find('\0') != head.npos;
        if (head[begin] == '{') return is_json_lines(std::string_view(head).substr(begin));
        return head[0] != '\x80' && (head.find('\0') == head.npos || head.find('\n') != head.npos);
    }

    void record(const std::string& bytes, const std::string& shown) {
        if (std::string_view(bytes).substr(0, 4096).find("\"communicators\": [") == std::string::npos) {
            result_.records.push_back(reader_.read(bytes, shown));
            return;
        }
        const auto json = of_record::parsed(bytes);
        auto records = of_ras::read_report(json, shown, result_.lines);
        reported_.insert(reported_.end(), records.begin(), records.end());
    }

    void log(std::istream&& stream, const std::string& shown, const std::string& name) {
        const auto is_of_rank = formats::lower(name).find("rank") != std::string::npos;
        const auto rank = is_of_rank ? of_record::rank_in_name(name) : std::nullopt;
        if (logs_.read(stream, shown, rank)) return;
        result_.unread.push_back(
            {shown, detail::cat(detail::excerpt(shown), " has no line that explain knows"), rank});
    }

    using Groups = std::set<std::shared_ptr<const RecordedGroup>>;
    /// Keeps only how far a rank came, on the groups of the dumps.
    static void as_statuses(FlightRecord& log, const Groups& groups) {
        for (const auto& entry : log.entries)
            log.statuses.push_back({entry.group, entry.number, entry.number - 1});
        log.entries.clear();
        for (auto& status : log.statuses)
            for (const auto& group : groups)
                if (group->name == status.group->name && std::ranges::count(group->ranks, log.rank) > 0)
                    status.group = group;
    }

    bool with_folder_;
    RecordReader reader_;
    of_log::LogReader logs_;
    std::vector<FlightRecord> reported_;  // by RAS
    RecordFolder result_;
};

/// Moves the records that were written before the world of another record began to the files that are not
/// read, and sorts the others by rank.
void leave_out_earlier(RecordFolder& folder) {
    constexpr auto most_apart = std::int64_t{5'000'000'000};  // begins of one world, and clocks of its hosts
    std::ranges::stable_sort(folder.records, {}, &FlightRecord::rank);
    const auto last = std::ranges::max_element(folder.records, {}, &FlightRecord::started_ns);
    if (last == folder.records.end() || !last->started_ns) return;
    const auto started = *last->started_ns;
    const auto of = last->file;
    std::erase_if(folder.records, [&](const FlightRecord& record) {
        if (!record.written_ns || started - *record.written_ns <= most_apart) return false;
        folder.unread.push_back(
            {record.file,
             detail::cat(detail::excerpt(record.file), " is of an earlier run: it was written ",
                         (started - *record.written_ns) / 1'000'000'000, " s before the world of ",
                         detail::excerpt(of), " began"),
             record.rank});
        return true;
    });
}

/// Returns a record without all but its last calls, if it is large. A record has a line for each call.
std::string last_calls_of(const std::filesystem::path& path, const std::string& shown) {
    constexpr auto part = std::size_t{1} << 14;
    constexpr std::string_view begin = "\"entries\": [\n";
    auto error = std::error_code{};
    const auto size = std::filesystem::file_size(path, error);
    if (error || size <= 3 * part) return content_of(path, shown);
    const auto text = formats::content_of(path, detail::excerpt(shown), part);
    const auto head = text.find(begin);
    if (head == std::string::npos) return content_of(path, shown);
    auto tail = std::string(part, ' ');
    auto file = std::ifstream(path, std::ios::binary);
    file.seekg(-static_cast<std::streamoff>(part), std::ios::end)
        .read(tail.data(), static_cast<std::streamsize>(part));
    return text.substr(0, head + begin.size()) + tail.substr(std::min(tail.find('\n'), part - 1));
}

}  // namespace of_folder

RecordFolder read_last_calls(const std::string& folder) {
    auto result = RecordFolder{};
    auto reader = RecordReader();
    for (const auto& path : of_folder::files_of(folder)) {
        const auto name = path.filename().string();
        if (!name.starts_with("rank-") || !name.ends_with(".json")) continue;
        try {
            result.records.push_back(reader.read(of_folder::last_calls_of(path, name), name));
        } catch (const UsageError& error) {
            result.unread.push_back({name, error.what(), of_record::rank_in_name(name)});
        }
    }
    of_folder::leave_out_earlier(result);
    return result;
}

RecordFolder read_records(const std::vector<std::string>& paths,
                          const std::function<void(std::size_t, std::size_t)>& progress) {
    auto files = std::vector<std::filesystem::path>{};
    auto with_folder = paths.size() > 1;
    for (const auto& path : paths) {
        auto error = std::error_code{};
        if (path.starts_with(of_folder::ras) || std::filesystem::is_regular_file(path, error)) {
            files.emplace_back(path);
            continue;
        }
        const auto found = of_folder::files_of(path, 4);
        with_folder |=
            !found.empty() && found.front() != std::filesystem::path(path) / found.front().filename();
        files.insert(files.end(), found.begin(), found.end());
    }
    if (files.empty())
        throw UsageError(detail::cat(paths.size() == 1 ? "the folder " : "the first folder ",
                                     detail::in_quotes(paths.empty() ? "" : paths.front()), " holds no files",
                                     of_folder::when_written));
    auto reader = of_folder::Reader(with_folder);
    for (std::size_t i = 0; i < files.size(); ++i) {
        reader.read(files[i]);
        if (progress) progress(i + 1, files.size());
    }
    auto result = reader.result();
    of_folder::leave_out_earlier(result);
    return result;
}

}  // namespace rankmesh
