// SPDX-License-Identifier: Apache-2.0
#include "formats/json.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include <rankmesh/core/error.hpp>

namespace rankmesh::formats {

namespace {

using Library = nlohmann::ordered_json;

Library to_library(const Json& json) {
    return std::visit(
        [](const auto& value) -> Library {
            using Kind = std::remove_cvref_t<decltype(value)>;
            if constexpr (std::same_as<Kind, Json::Array>) {
                auto list = Library::array();
                for (const auto& element : value) list.push_back(to_library(element));
                return list;
            } else if constexpr (std::same_as<Kind, Json::Object>) {
                auto object = Library::object();
                for (const auto& [key, element] : value) object[key] = to_library(element);
                return object;
            } else {
                return value;
            }
        },
        json.value());
}

/// Builds a Json from the events of the library.
class Builder final : public nlohmann::json_sax<Library> {
public:
    explicit Builder(Limits* limits) : limits_(limits) {}
    Json value;

    bool null() override { return add(nullptr); }
    bool boolean(bool truth) override { return add(truth); }
    bool number_integer(Library::number_integer_t number) override { return add(number); }
    bool number_unsigned(Library::number_unsigned_t number) override { return add(number); }
    bool number_float(Library::number_float_t number, const std::string&) override { return add(number); }
    bool string(std::string& text) override { return add(std::move(text)); }
    bool binary(Library::binary_t&) override { return false; }  // not in JSON
    bool start_object(std::size_t) override { return begin(Json::object()); }
    bool start_array(std::size_t) override { return begin(Json::array()); }
    bool end_object() override { return end(); }
    bool end_array() override { return end(); }
    bool key(std::string& name) override {
        if (limits_) {
            limits_->key();
            if (open_.back().contains(name))
                throw UsageError(detail::cat(limits_->source(), " say ", detail::excerpt(name),
                                             " twice in one table; say it once"));
        }
        keys_.push_back(std::move(name));
        return true;
    }
    bool parse_error(std::size_t at, const std::string& word, const Library::exception& error) override {
        throw Json::SyntaxError(at, dynamic_cast<const Library::out_of_range*>(&error) ? word : "");
    }

private:
    bool add(Json read) {
        if (open_.empty()) {
            value = std::move(read);
        } else if (open_.back().is_array()) {
            open_.back().push_back(std::move(read));
        } else {
            if (limits_)  // the key is new
                open_.back().add(std::move(keys_.back()), std::move(read));
            else
                open_.back()[keys_.back()] = std::move(read);
            keys_.pop_back();
        }
        return true;
    }
    bool begin(Json empty) {
        if (limits_) limits_->enter();
        open_.push_back(std::move(empty));
        return true;
    }
    bool end() {
        if (limits_) limits_->leave();
        auto ended = std::move(open_.back());
        open_.pop_back();
        return add(std::move(ended));
    }

    Limits* limits_;
    std::vector<Json> open_;         // arrays and objects, each in the one before
    std::vector<std::string> keys_;  // whose values are not yet read
};

const Json::Object empty_object;

auto found(auto& object, std::string_view key) {
    return std::ranges::find(object, key, [](const auto& item) -> std::string_view { return item.first; });
}

}  // namespace

Json::Json(std::nullptr_t) {}
Json::Json(Value value) : value_(std::move(value)) {}
Json::Json(double number) : value_(number) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(Array list) : value_(std::move(list)) {}
Json::Json(std::initializer_list<Json> list) {
    const auto is_object = std::ranges::all_of(
        list, [](const Json& one) { return one.is_array() && one.size() == 2 && one.begin()->is_string(); });
    if (!is_object) {
        value_ = Array(list);
        return;
    }
    auto& object = value_.emplace<Object>();
    for (const auto& one : list) object.emplace_back(one.begin()->text(), one.begin()[1]);
}
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json Json::array(std::initializer_list<Json> list) { return Json(Array(list)); }
Json Json::object() { return Json(Value(Object{})); }

Json Json::parse(std::string_view text, Limits* limits) {
    auto builder = Builder(limits);
    Library::sax_parse(text, &builder, Library::input_format_t::json, true, true);
    return std::move(builder.value);
}

std::string Json::dump(int indent) const { return to_library(*this).dump(indent); }

const Json::Object& Json::items() const { return is_null() ? empty_object : std::get<Object>(value_); }

std::size_t Json::size() const { return is_array() ? std::get<Array>(value_).size() : items().size(); }
bool Json::contains(std::string_view key) const { return found(items(), key) != items().end(); }

Json& Json::operator[](std::string_view key) {
    if (is_null()) value_ = Object{};
    auto& object = std::get<Object>(value_);
    if (const auto known = found(object, key); known != object.end()) return known->second;
    return object.emplace_back(key, nullptr).second;
}
const Json& Json::operator[](std::string_view key) const {
    const auto known = found(items(), key);
    if (known == items().end()) throw std::out_of_range("the JSON has no '" + std::string(key) + "'");
    return known->second;
}

void Json::add(std::string key, Json value) {
    std::get<Object>(value_).emplace_back(std::move(key), std::move(value));
}
void Json::push_back(Json element) {
    if (is_null()) value_ = Array{};
    std::get<Array>(value_).push_back(std::move(element));
}
void Json::update(const Json& other) {
    for (const auto& [key, value] : other.items()) (*this)[key] = value;
}
void Json::erase(std::string_view key) {
    auto& object = std::get<Object>(value_);
    if (const auto known = found(object, key); known != object.end()) object.erase(known);
}

bool Json::operator==(const Json& other) const { return value_ == other.value_; }
std::partial_ordering Json::operator<=>(std::int64_t number) const {
    if (const auto* whole = std::get_if<std::int64_t>(&value_)) return *whole <=> number;
    if (std::holds_alternative<std::uint64_t>(value_)) return std::partial_ordering::greater;
    return std::partial_ordering::unordered;
}

Json parse_json(std::string_view text, std::string_view source, int keys) {
    auto limits = Limits(source, keys);
    try {
        auto value = Json::parse(text, &limits);
        if (value.is_object()) return value;
    } catch (const Json::SyntaxError& error) {
        if (error.number.empty())
            throw UsageError(
                detail::cat(source, " are no JSON: something is wrong at character ", error.byte));
        throw UsageError(detail::cat(source, " hold the number ", detail::excerpt(error.number),
                                     ", which ends at character ", error.byte,
                                     "; numbers are below 1.8e308"));
    }
    throw UsageError(detail::cat(source, " hold JSON that is no object: {\"key\": value}"));
}

std::string excerpt(const Json& value) {
    if (value.is_string()) return detail::in_quotes(value.text());
    // TOML can have this value, but JSON cannot write it.
    if (value.is_number_float() && !std::isfinite(value.get<double>())) return "no finite number";
    return detail::excerpt(value.dump());
}

}  // namespace rankmesh::formats
