// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <nlohmann/json.hpp>

#include <rankmesh/core/error.hpp>

#include "convert/settings_text.hpp"

namespace rankmesh::conversion {

using detail::cat;
using detail::excerpt;

namespace {

using Library = nlohmann::ordered_json;

/// Reads JSON without keeping it: throws UsageError for what is none, and for more than is read.
class JsonCheck : public nlohmann::json_sax<Library> {
public:
    explicit JsonCheck(std::string_view source) : source_(source), limits_(source) {}

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(Library::number_integer_t) override { return true; }
    bool number_unsigned(Library::number_unsigned_t) override { return true; }
    bool number_float(Library::number_float_t, const std::string&) override { return true; }
    bool string(std::string&) override { return true; }
    bool binary(Library::binary_t&) override { return true; }
    bool start_object(std::size_t) override {
        limits_.enter();
        keys_.emplace_back();
        return true;
    }
    bool key(std::string& name) override {
        limits_.key();
        if (!keys_.back().insert(name).second)
            throw UsageError(cat(source_, " say ", excerpt(name), " twice in one table; say it once"));
        return true;
    }
    bool end_object() override {
        limits_.leave();
        keys_.pop_back();
        return true;
    }
    bool start_array(std::size_t) override {
        limits_.enter();
        return true;
    }
    bool end_array() override {
        limits_.leave();
        return true;
    }
    bool parse_error(std::size_t at, const std::string& word, const Library::exception& error) override {
        if (dynamic_cast<const Library::out_of_range*>(&error))
            throw UsageError(cat(source_, " hold the number ", excerpt(word), ", which ends at character ",
                                 at, "; numbers are below 1.8e308"));
        throw UsageError(cat(source_, " are no JSON: something is wrong at character ", at));
    }

private:
    std::string source_;
    Limits limits_;
    std::vector<std::set<std::string>> keys_;  // of the open tables
};

}  // namespace

Json parse_json(const std::string& text, std::string_view source) {
    auto check = JsonCheck(source);
    Library::sax_parse(text, &check, Library::input_format_t::json, true, true);
    auto value = Json::parse(text);
    if (!value.is_object()) throw UsageError(cat(source, " hold JSON that is no object: {\"key\": value}"));
    return value;
}

}  // namespace rankmesh::conversion
