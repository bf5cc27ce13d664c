// SPDX-License-Identifier: Apache-2.0
// Of every framework that is described by rows: a setting at another value comes back onto itself, and onto
// every other framework it changes the layout, or is named.
#include <gtest/gtest.h>

#include <algorithm>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

#include "formats/json.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::tests {
namespace {

using formats::Json;
using frameworks::Setting;
using frameworks::Type;
using frameworks::Value;

/// Other values of a setting, as JSON.
std::vector<Json> others_of(const Setting& row) {
    switch (row.type) {
        case Type::flag:
            return {row.otherwise != Value(true)};
        case Type::number:
        case Type::maybe_number:
            return {2, 4};
        case Type::numbers:
            return {Json(std::vector<int>{2}), Json(std::vector<int>{4})};
        default: {
            auto words = std::vector<Json>{};
            for (const auto& [word, meaning] : row.words)
                if (row.otherwise != Value(word)) words.emplace_back(word);
            return words;
        }
    }
}

/// Sets a setting where the framework reads it: by its name, or by its name in a table of a configuration.
void set(Json& settings, const frameworks::Framework& rows, const Setting& row, const Json& value) {
    if (rows.table.empty() || row.apart) {
        settings[row.name] = value;
        return;
    }
    const auto name = row.flag.empty() ? row.name : std::string(frameworks::words_of(row.flag).front());
    const auto dot = name.find('.');
    auto& table = settings[rows.table];
    (dot == std::string::npos ? table[name] : table[name.substr(0, dot)][name.substr(dot + 1)]) = value;
}

std::optional<Conversion> converted(const std::string& from, std::string_view to, const Json& settings,
                                    int world) {
    try {
        return convert_text(from, to, settings.dump(), world);
    } catch (const UsageError&) {
        return std::nullopt;  // the framework refuses the value on these ranks
    }
}

TEST(NothingVanishes, OfTheSettingsOfEveryFramework) {
    auto tried = 0;
    for (const auto& rows : frameworks::all()) {
        if (rows.settings.empty()) continue;
        const auto ignored = frameworks::words_of(rows.ignore);
        for (const auto& row : rows.settings) {
            if (std::ranges::find(ignored, row.name) != ignored.end()) continue;
            for (const auto& value : others_of(row)) {
                auto plain = Json::object();
                for (const auto& each : rows.settings)  // those without a default
                    if (each.type == Type::number && each.otherwise == Value()) set(plain, rows, each, 1);
                auto settings = plain;
                set(settings, rows, row, value);
                for (const auto world : {2, 4, 8, 16}) {
                    const auto self = converted(rows.name, rows.name, settings, world);
                    if (!self || !self->settings) continue;
                    ++tried;
                    const auto about = rows.name + " " + settings.dump() + " on " + std::to_string(world);
                    EXPECT_TRUE(self->lost.empty()) << about << ": " << self->lost.front().what;
                    EXPECT_EQ(self->moved, 0) << about;
                    const auto base = converted(rows.name, rows.name, plain, world);
                    for (const auto& other : known_frameworks()) {
                        const auto there = converted(rows.name, other.name, settings, world);
                        if (!there || !there->lost.empty() || !base) continue;
                        const auto before = converted(rows.name, other.name, plain, world);
                        if (before && self->settings != base->settings) {
                            EXPECT_TRUE(before->text != there->text || before->notes != there->notes)
                                << about << " to " << other.name;
                        }
                    }
                    break;
                }
            }
        }
    }
    EXPECT_GT(tried, 50);
}

}  // namespace
}  // namespace rankmesh::tests
