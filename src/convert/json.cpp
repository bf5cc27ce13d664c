// SPDX-License-Identifier: Apache-2.0
#include "convert/json.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace rankmesh::conversion {

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

Json from_library(const Library& json) {
    switch (json.type()) {
        case Library::value_t::boolean:
            return json.get<bool>();
        case Library::value_t::number_integer:
            return json.get<std::int64_t>();
        case Library::value_t::number_unsigned:
            return json.get<std::uint64_t>();
        case Library::value_t::number_float:
            return json.get<double>();
        case Library::value_t::string:
            return json.get_ref<const std::string&>();
        case Library::value_t::array: {
            auto list = Json::array();
            for (const auto& element : json) list.push_back(from_library(element));
            return list;
        }
        case Library::value_t::object: {
            auto object = Json::object();
            for (const auto& [key, element] : json.items()) object.add(key, from_library(element));
            return object;
        }
        default:
            return nullptr;
    }
}

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

Json Json::parse(std::string_view text) {
    try {
        return from_library(Library::parse(text, nullptr, true, true));
    } catch (const Library::parse_error& error) {
        throw SyntaxError(error.byte);
    }
}

std::string Json::dump(int indent) const { return to_library(*this).dump(indent); }

bool Json::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
bool Json::is_boolean() const { return std::holds_alternative<bool>(value_); }
bool Json::is_number() const { return is_number_integer() || is_number_float(); }
bool Json::is_number_float() const { return std::holds_alternative<double>(value_); }
bool Json::is_number_integer() const {
    return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<std::uint64_t>(value_);
}
bool Json::is_string() const { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const { return std::holds_alternative<Array>(value_); }
bool Json::is_object() const { return std::holds_alternative<Object>(value_); }

const std::string& Json::text() const { return std::get<std::string>(value_); }
Json::Array::const_iterator Json::begin() const { return std::get<Array>(value_).begin(); }
Json::Array::const_iterator Json::end() const { return std::get<Array>(value_).end(); }
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

}  // namespace rankmesh::conversion
