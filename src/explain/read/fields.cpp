// SPDX-License-Identifier: Apache-2.0
#include "explain/read/fields.hpp"

#include <algorithm>

#include <rankmesh/core/detail/number.hpp>

#include "formats/text.hpp"

namespace rankmesh::of_record {

namespace {

constexpr auto most_keys = 10'000;       // of one object
constexpr auto most_values = 8'000'000;  // of a file: each takes about 70 bytes
constexpr auto most_size = std::int64_t{1} << 40;

/// Throws UsageError if JSON would use too much stack or time for its length.
void check_nesting(std::string_view text) {
    struct Open {
        bool is_object;
        int keys = 1;
    };
    auto open = std::vector<Open>{};
    auto values = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = text[i];
        if ((c == ',' || c == '[' || c == '{') && ++values > most_values)
            throw UsageError(cat("has more than ", most_values, " values"));
        if (c == '"') {
            for (++i; i < text.size() && text[i] != '"'; ++i)
                if (text[i] == '\\') ++i;
        } else if (c == '/') {
            throw UsageError(cat("is no JSON from byte ", i + 1, " on"));
        } else if (c == '{' || c == '[') {
            open.push_back({c == '{'});
            if (open.size() > most_levels)
                throw UsageError(cat("nests more than ", most_levels, " levels deep"));
        } else if ((c == '}' || c == ']') && !open.empty()) {
            open.pop_back();
        } else if (c == ',' && !open.empty() && open.back().is_object && ++open.back().keys > most_keys) {
            throw UsageError(cat("has an object of more than ", most_keys, " keys"));
        }
    }
}

}  // namespace

Json parsed(std::string_view bytes) {
    if (!bytes.empty() && bytes.front() == '\x80') return read_pickle(bytes);
    if (bytes.find_first_not_of(" \t\r\n") == std::string_view::npos) throw UsageError("is empty");
    check_nesting(bytes);
    try {
        return Json::parse(bytes);
    } catch (const Json::SyntaxError& error) {
        if (error.byte > bytes.size()) throw UsageError(cat("is cut off after ", bytes.size(), " bytes"));
        throw UsageError(cat("is no JSON from byte ", error.byte, " on"));
    }
}

const Json* find(const Json& object, std::string_view key) {
    for (const auto& [name, value] : object.items())
        if (name == key) return value.is_null() ? nullptr : &value;
    return nullptr;
}

[[noreturn]] void wrong(std::string_view key, std::string_view expected) {
    throw UsageError(cat("has a '", key, "' that is no ", expected));
}

std::int64_t whole(const Json& value, std::string_view key) {
    if (const auto* number = std::get_if<std::int64_t>(&value.value())) return *number;
    if (value.is_string())  // PyTorch's JSON writes some numbers as texts
        if (const auto number = detail::number_in<std::int64_t>(value.text())) return *number;
    wrong(key, "whole number");
}
std::optional<std::int64_t> find_whole(const Json& object, std::string_view key) {
    const auto* value = find(object, key);
    return value ? std::optional(whole(*value, key)) : std::nullopt;
}
std::int64_t whole_or(const Json& object, std::string_view key, std::int64_t otherwise) {
    return find_whole(object, key).value_or(otherwise);
}

int rank_of(std::int64_t number, std::string_view key) {
    if (number < 0 || number >= most_world) wrong(key, cat("rank of 0 to ", most_world - 1));
    return static_cast<int>(number);
}

std::string text_or(const Json& object, std::string_view key, std::string_view otherwise) {
    const auto* value = find(object, key);
    if (!value) return std::string(otherwise);
    if (!value->is_string()) wrong(key, "text");
    return value->text();
}

bool flag_or(const Json& object, std::string_view key, bool otherwise) {
    const auto* value = find(object, key);
    if (!value) return otherwise;
    if (!value->is_boolean()) wrong(key, "boolean");
    return value->get<bool>();
}

const Json::Array& list(const Json& value, std::string_view key) {
    const auto* array = std::get_if<Json::Array>(&value.value());
    if (!array) wrong(key, "list");
    return *array;
}

const Json::Object& object(const Json& value, std::string_view key) {
    if (!value.is_object()) wrong(key, "object");
    return value.items();
}

std::vector<int> ranks_of(const Json& value, std::string_view key) {
    auto ranks = std::vector<int>{};
    if (value.is_string()) {
        for (const auto word : formats::words_of(value.text(), " ,[]")) {
            const auto number = detail::number_in<std::int64_t>(word);
            if (!number) wrong(key, "list of ranks");
            ranks.push_back(rank_of(*number, key));
        }
    } else {
        for (const auto& rank : list(value, key)) ranks.push_back(rank_of(whole(rank, key), key));
    }
    auto sorted = ranks;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) wrong(key, "list of different ranks");
    return ranks;
}
std::vector<int> ranks_or_none(const Json& record, std::string_view key) {
    const auto* value = find(record, key);
    return value ? ranks_of(*value, key) : std::vector<int>{};
}

std::vector<std::vector<std::int64_t>> sizes_of(const Json& entry, std::string_view key) {
    auto sizes = std::vector<std::vector<std::int64_t>>{};
    const auto* value = find(entry, key);
    if (!value) return sizes;
    for (const auto& one : list(*value, key)) {
        auto& dimensions = sizes.emplace_back();
        for (const auto& dimension : list(one, key)) {
            const auto size = whole(dimension, key);
            if (size < 0 || size > most_size) wrong(key, "list of sizes");
            dimensions.push_back(size);
        }
    }
    return sizes;
}

std::vector<std::string> texts_of(const Json& entry, std::string_view key) {
    auto texts = std::vector<std::string>{};
    if (const auto* value = find(entry, key))
        for (const auto& one : list(*value, key)) {
            if (!one.is_string()) wrong(key, "list of texts");
            texts.push_back(one.text());
        }
    return texts;
}

}  // namespace rankmesh::of_record
