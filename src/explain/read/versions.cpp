// SPDX-License-Identifier: Apache-2.0
#include "explain/read/versions.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/error.hpp>

#include "formats/text.hpp"

namespace rankmesh::of_versions {

using detail::cat;

namespace {

using Numbers = std::array<int, 4>;

/// Returns the numbers of `2.28.9`, `4.1.4rc1` or `2.13.0+cpu`. A number that is missing is `otherwise`.
/// Returns nullopt if the text is not a version.
std::optional<Numbers> numbers_of(std::string_view version, int otherwise) {
    auto numbers = Numbers{};
    numbers.fill(otherwise);
    version = version.substr(0, version.find_first_of("+-~_ abcdr"));
    const auto parts = formats::split(version, '.');
    if (parts.size() > numbers.size()) return std::nullopt;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto number = detail::number_in(parts[i]);
        if (!number || *number < 0) return std::nullopt;
        numbers[i] = *number;
    }
    return numbers;
}

const Library& library_of(std::string_view key) {
    const auto known = std::ranges::find(libraries, key, &Library::key);
    if (known != std::end(libraries)) return *known;
    auto keys = std::string{};
    for (const auto& library : libraries) keys += cat(keys.empty() ? "" : ", ", library.key);
    throw UsageError(
        cat("--versions names ", detail::in_quotes(key), ", which is no known library; give one of ", keys));
}

}  // namespace

bool Range::has(std::string_view version) const {
    constexpr auto most = std::numeric_limits<int>::max();
    return (first.empty() || numbers_of(version, most) >= numbers_of(first, 0)) &&
           (last.empty() || numbers_of(version, 0) <= numbers_of(last, most));
}

Versions parse_versions(std::string_view text) {
    auto versions = Versions{};
    for (const auto part : formats::words_of(text, ",")) {
        const auto equals = std::min(part.find('='), part.size());
        const auto key = formats::trimmed(part.substr(0, equals));
        const auto version = formats::trimmed(part.substr(std::min(equals + 1, part.size())));
        library_of(key);
        if (!numbers_of(version, 0))
            throw UsageError(cat("--versions gives ", detail::in_quotes(version), " for ", key,
                                 ", which is no version; write numbers with dots, such as ", key, "=2.28.9"));
        versions.emplace_back(key, version);
    }
    return versions;
}

std::vector<const Fault*> faults_of(const Versions& versions, std::string_view processor) {
    auto found = std::vector<const Fault*>{};
    for (const auto& [key, version] : versions)
        for (const auto& fault : faults)
            if (fault.library == key && fault.versions.has(version) &&
                (processor.empty() || fault.processor.empty() || fault.processor == processor))
                found.push_back(&fault);
    return found;
}

std::string text_of(const Range& range) {
    if (range.first.empty()) return cat("up to ", range.last);
    return range.first == range.last ? std::string(range.first) : cat(range.first, " to ", range.last);
}

std::string text_of(const Fault& fault) {
    return cat(library_of(fault.library).name, " ", text_of(fault.versions),
               fault.processor.empty() ? "" : " on ", fault.processor, ": ", fault.text, " (", fault.source,
               ")");
}

std::string untested(const Versions& versions) {
    auto text = std::string{};
    for (const auto& [key, version] : versions)
        if (const auto& library = library_of(key); !library.tested.has(version))
            text += cat(text.empty() ? "not tested with " : ", ", library.name, " ", version,
                        " (tested: ", text_of(library.tested), ")");
    return text;
}

}  // namespace rankmesh::of_versions
