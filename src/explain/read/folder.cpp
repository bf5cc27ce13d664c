// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include <rankmesh/core/error.hpp>
#include <rankmesh/explain/read.hpp>

#include "explain/read/file_name.hpp"
#include "formats/file.hpp"

namespace rankmesh {

namespace detail::explaining {

std::optional<int> rank_in_name(const std::string& file) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    auto begin = std::string::npos;
    if (const auto at = file.rfind("rank"); at != std::string::npos && at + 5 < file.size() &&
                                            is_digit(file[at + 5]) &&
                                            (file[at + 4] == '-' || file[at + 4] == '_'))
        begin = at + 5;
    if (begin == std::string::npos) {
        const auto stem = std::string_view(file).substr(0, file.find('.'));
        auto end = stem.size();
        while (end > 0 && !is_digit(stem[end - 1])) --end;
        begin = end;
        while (begin > 0 && is_digit(stem[begin - 1])) --begin;
        if (begin == end) return std::nullopt;
    }
    auto rank = 0;
    const auto [end, error] = std::from_chars(file.data() + begin, file.data() + file.size(), rank);
    return error == std::errc{} ? std::optional(rank) : std::nullopt;
}

}  // namespace detail::explaining

namespace of_folder {

constexpr auto most_bytes = std::uintmax_t{1} << 28;

std::string content_of(const std::filesystem::path& path) {
    const auto refuse = [&](const std::string& why) {
        throw UsageError(detail::cat(detail::excerpt(path.filename().string()), " ", why));
    };
    auto error = std::error_code{};
    if (!std::filesystem::is_regular_file(path, error)) refuse("is no regular file");
    const auto size = std::filesystem::file_size(path, error);
    if (!error && size > most_bytes)
        refuse(detail::cat("has ", size, " bytes; at most ", most_bytes, " are read"));
    return formats::content_of(path, detail::excerpt(path.filename().string()), error ? most_bytes : size);
}

}  // namespace of_folder

RecordFolder read_records(const std::string& folder,
                          const std::function<void(std::size_t, std::size_t)>& progress) {
    auto names = std::vector<std::string>{};
    try {
        for (const auto& entry : std::filesystem::directory_iterator(folder))
            if (!entry.is_directory()) names.push_back(entry.path().filename().string());
    } catch (const std::filesystem::filesystem_error& error) {
        throw UsageError(detail::cat("the folder ", detail::in_quotes(folder),
                                     " cannot be read: ", error.code().message()));
    }
    if (names.empty())
        throw UsageError(detail::cat("the folder ", detail::in_quotes(folder),
                                     " holds no files; records are written where RANKMESH_RECORD says"));
    std::ranges::sort(names);
    auto reader = RecordReader();
    auto result = RecordFolder{};
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto& name = names[i];
        try {
            if (name.ends_with(".tmp"))
                throw UsageError(detail::cat(detail::excerpt(name),
                                             " was not written to its end: its process ended meanwhile"));
            result.records.push_back(
                reader.read(of_folder::content_of(std::filesystem::path(folder) / name), name));
        } catch (const UsageError& error) {
            result.unread.push_back({name, error.what(), detail::explaining::rank_in_name(name)});
        }
        if (progress) progress(i + 1, names.size());
    }
    std::ranges::stable_sort(result.records, {}, &FlightRecord::rank);
    return result;
}

}  // namespace rankmesh
