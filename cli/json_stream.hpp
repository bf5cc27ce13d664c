// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.hpp"
#include "output.hpp"

namespace rankmesh::cli {

using formats::Json;

/// Writes one JSON value to the output piece by piece, so that lists of ranks are never held in memory.
///
///     auto json = JsonStream(output);
///     json.object();
///     json.add("mesh", "dp=4");
///     json.list("ranks", group);
///     json.end();  // {"mesh":"dp=4","ranks":[0,1,2,3]}
class JsonStream {
public:
    explicit JsonStream(Output& output) : output_(output) {}

    /// Begins an object; inside an object it needs a key.
    void object(std::string_view key = {}) { begin(key, '{', '}', ","); }
    /// Begins an array, whose elements `between` separates.
    void array(std::string_view key = {}, std::string_view between = ",") { begin(key, '[', ']', between); }
    /// Ends the object or array that began last, and the line at the end of the outermost.
    void end() {
        output_.write({&open_.back().closing, 1});
        open_.pop_back();
        if (open_.empty()) output_.write("\n");
    }

    void add(std::string_view key, const Json& value) {
        next(key);
        output_.write(value.dump());
    }
    void add(const Json& value) { add({}, value); }
    void add(std::string_view key, std::integral auto number) {
        next(key);
        output_.write(std::to_string(number));
    }
    void add(std::integral auto number) { add({}, number); }
    /// An array of numbers.
    void list(std::string_view key, const auto& numbers) {
        array(key);
        for (auto number : numbers) add(number);
        end();
    }

private:
    struct Open {
        char closing;
        std::string_view between;
        bool empty = true;
    };
    void begin(std::string_view key, char opening, char closing, std::string_view between) {
        next(key);
        output_.write({&opening, 1});
        open_.push_back({closing, between});
    }
    /// Writes what stands before the next value.
    void next(std::string_view key) {
        if (!open_.empty() && !open_.back().empty) output_.write(open_.back().between);
        if (!open_.empty()) open_.back().empty = false;
        if (key.empty()) return;
        output_.write("\"");
        output_.write(key);  // a name, which needs no escape
        output_.write("\":");
    }

    Output& output_;
    std::vector<Open> open_;  // objects and arrays that have begun, each in the one before
};

}  // namespace rankmesh::cli
