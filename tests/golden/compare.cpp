// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "check.hpp"

namespace golden {
namespace {

class Hash {
public:
    void add(std::string_view text) {
        for (auto c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
    std::string hex() const {
        char text[17];
        std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value_));
        return text;
    }

private:
    std::uint64_t value_ = 0xcbf29ce484222325U;
};

void add_ranks(Hash& hash, const Json& ranks) {
    auto separator = std::string_view{};
    for (const auto& rank : ranks) {
        hash.add(separator);
        hash.add(rank.dump());
        separator = ",";
    }
}

Json part(const Json& list, std::size_t from, std::size_t to) {
    auto made = Json::array();
    for (auto i = from; i < std::min(to, list.size()); ++i) made.push_back(list[i]);
    return made;
}

/// A long list of ranks as the schema has it.
Json encoded_ranks(const Json& list) {
    auto hash = Hash{};
    add_ranks(hash, list);
    return {{"len", list.size()},
            {"head", part(list, 0, 8)},
            {"tail", part(list, list.size() < 8 ? 0 : list.size() - 8, list.size())},
            {"fnv1a64", hash.hex()}};
}

/// Many groups as the schema has them.
Json encoded_groups(const Json& list) {
    auto hash = Hash{};
    auto lengths = std::vector<std::size_t>{};
    auto separator = std::string_view{};
    for (const auto& group : list) {
        hash.add(separator);
        add_ranks(hash, group);
        lengths.push_back(group.size());
        separator = ";";
    }
    std::ranges::sort(lengths);
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    return {{"n", list.size()},
            {"len", lengths.size() == 1 ? Json(lengths[0]) : Json(lengths)},
            {"first", list.empty() ? Json::array() : part(list.front(), 0, 16)},
            {"last", list.empty() ? Json::array() : part(list.back(), 0, 16)},
            {"fnv1a64", hash.hex()}};
}

bool is_error(const Json& value) { return value.is_object() && value.contains("error"); }

/// A value in a report: the beginning of it.
std::string shown(const Json& value) {
    auto text = value.dump();
    constexpr auto most = std::size_t{160};
    if (text.size() > most) text = text.substr(0, most) + "...";
    return text;
}

std::string differ(const std::string& where, const Json& expected, const Json& got) {
    return (where.empty() ? "" : "at " + where + " ") + "expected " + shown(expected) + " got " + shown(got);
}

std::string compare(const System& system, const Case& test, const std::string& where, const Json& expected,
                    const Json& got, std::vector<std::string>& refused) {
    if (is_error(expected) && expected["error"].is_object() && expected["error"].contains("type")) {
        if (!is_error(got)) return differ(where, expected, got);
        const auto faults = system.faults(test, expected["error"]["type"].get<std::string>(),
                                          expected["error"]["message"].get<std::string>());
        for (auto fault : faults)
            if (got["error"]["fault"] == to_string(fault)) return {};
        return differ(where, expected, got);
    }
    if (got.is_object() && got.contains("refused")) {
        refused.push_back(got["refused"]);
        return {};
    }
    if (expected.is_object() && got.is_array()) {
        if (expected.contains("head"))
            return compare(system, test, where, expected, encoded_ranks(got), refused);
        if (expected.contains("n"))
            return compare(system, test, where, expected, encoded_groups(got), refused);
    }
    if (expected.is_object() && got.is_object()) {
        for (const auto& [key, value] : expected.items()) {
            if (!got.contains(key)) return differ(where + "/" + key, value, nullptr);
            if (auto found = compare(system, test, where + "/" + key, value, got[key], refused);
                !found.empty())
                return found;
        }
        for (const auto& [key, value] : got.items())
            if (!expected.contains(key)) return differ(where + "/" + key, nullptr, value);
        return {};
    }
    if (expected.is_array() && got.is_array() && expected.size() == got.size()) {
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (auto found =
                    compare(system, test, where + "/" + std::to_string(i), expected[i], got[i], refused);
                !found.empty())
                return found;
        return {};
    }
    return expected == got ? std::string{} : differ(where, expected, got);
}

}  // namespace

std::string fnv1a64(std::string_view text) {
    auto hash = Hash{};
    hash.add(text);
    return hash.hex();
}

Json ranks(const rankmesh::Group& group) { return std::vector<int>(group.begin(), group.end()); }

Json groups(const rankmesh::Partition& partition) {
    auto list = Json::array();
    for (const auto& group : partition) list.push_back(ranks(group));
    return list;
}

Json groups(const rankmesh::frameworks::Groups& groups, std::string_view kind) {
    auto list = Json::array();
    for (int i = 0; i < groups.count(kind); ++i) {
        const auto group = groups.group(kind, i);
        list.push_back(std::vector<int>(group.begin(), group.end()));
    }
    return list;
}

Json json_of(const rankmesh::frameworks::Value& value) {
    return std::visit(
        [](const auto& each) {
            if constexpr (std::is_constructible_v<Json, decltype(each)>)
                return Json(each);
            else
                return Json(nullptr);
        },
        value);
}

std::string difference(const System& system, const Case& test, const Json& got,
                       std::vector<std::string>& refused) {
    return compare(system, test, "", test.expect, got, refused);
}

}  // namespace golden
