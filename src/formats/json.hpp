// SPDX-License-Identifier: Apache-2.0
// JSON as a value. Only json.cpp includes the library that reads and writes JSON, because it takes seconds to
// compile.
#pragma once

#include <array>
#include <compare>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "formats/limits.hpp"

namespace rankmesh::formats {

/// A JSON value, whose objects keep the order in which their keys were set.
///
///     auto out = Json{{"mesh", "pp=2 tp=2"}, {"ranks", {0, 1, 2, 3}}};
///     out["size"] = 4;
///     out.dump();  // {"mesh":"pp=2 tp=2","ranks":[0,1,2,3],"size":4}
class Json {
public:
    using Array = std::vector<Json>;
    using Object = std::vector<std::pair<std::string, Json>>;
    /// Whole numbers are unsigned only if they do not fit in a signed number.
    using Value =
        std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

    /// The text is not JSON from byte `byte` on, counted from 1. `number` is set if the reason is a number
    /// that does not fit in a double.
    struct SyntaxError : std::runtime_error {
        SyntaxError(std::size_t byte, std::string number)
            : std::runtime_error("no JSON"), byte(byte), number(std::move(number)) {}
        std::size_t byte;
        std::string number;
    };

    Json(std::nullptr_t = nullptr);
    template <std::integral Number>  // a template, because a pointer must not convert to bool
    Json(Number number) : Json(scalar(number)) {}
    Json(double number);
    Json(const char* text);
    Json(std::string_view text);
    Json(std::string text);
    template <class First, class Second>
    Json(const std::pair<First, Second>& pair) : Json({Json(pair.first), Json(pair.second)}) {}
    template <class Element>
    Json(const std::vector<Element>& list) : Json(Array(list.begin(), list.end())) {}
    template <class Element, std::size_t size>
    Json(const std::array<Element, size>& list) : Json(Array(list.begin(), list.end())) {}
    Json(Array list);
    /// Makes an object if every element is a pair that begins with a text, else an array.
    Json(std::initializer_list<Json> list);

    Json(const Json&);
    Json(Json&&) noexcept;
    Json& operator=(const Json&);
    Json& operator=(Json&&) noexcept;
    ~Json();

    static Json array(std::initializer_list<Json> list = {});
    static Json object();
    /// Reads JSON with optional comments. Throws SyntaxError for invalid JSON. A repeated key keeps its last
    /// value; with limits, throws UsageError for a repeated key and for exceeded limits.
    static Json parse(std::string_view text, Limits* limits = nullptr);
    /// Returns the text: on one line, or with `indent` blanks per level. Throws if a text is not UTF-8.
    std::string dump(int indent = -1) const;

    bool is_null() const { return is<std::nullptr_t>(); }
    bool is_boolean() const { return is<bool>(); }
    bool is_number() const { return is_number_integer() || is_number_float(); }
    bool is_number_integer() const { return is<std::int64_t>() || is<std::uint64_t>(); }
    bool is_number_float() const { return is<double>(); }
    bool is_string() const { return is<std::string>(); }
    bool is_array() const { return is<Array>(); }
    bool is_object() const { return is<Object>(); }

    const Value& value() const { return value_; }
    /// Returns the value; an array as a vector. Throws std::bad_variant_access for another kind.
    template <class As>
    As get() const;
    const std::string& text() const { return std::get<std::string>(value_); }
    /// Of an array: its elements.
    Array::const_iterator begin() const { return std::get<Array>(value_).begin(); }
    Array::const_iterator end() const { return std::get<Array>(value_).end(); }
    /// Of an object: its keys and values.
    const Object& items() const;

    /// Returns the number of elements of an array, or of keys of an object.
    std::size_t size() const;
    bool contains(std::string_view key) const;
    /// Returns the value of a key of an object. null becomes an object, and a missing key becomes null.
    Json& operator[](std::string_view key);
    /// Returns the value of a key. Throws std::out_of_range for a missing key.
    const Json& operator[](std::string_view key) const;
    /// Adds a new key to an object without searching for it, because adding 10,000 keys would take 10^8
    /// comparisons.
    void add(std::string key, Json value);
    /// Appends to an array; null becomes an array.
    void push_back(Json element);
    /// Sets every key of another object.
    void update(const Json& other);
    void erase(std::string_view key);

    bool operator==(const Json& other) const;
    /// Unordered if this is not a whole number.
    std::partial_ordering operator<=>(std::int64_t number) const;

private:
    explicit Json(Value value);
    template <class Kind>
    bool is() const {
        return std::holds_alternative<Kind>(value_);
    }
    template <std::integral Number>
    static Value scalar(Number number) {
        if constexpr (std::same_as<Number, bool>)
            return number;
        else
            return std::in_range<std::int64_t>(number) ? Value(static_cast<std::int64_t>(number))
                                                       : Value(static_cast<std::uint64_t>(number));
    }

    Value value_;
};

template <class As>
As Json::get() const {
    if constexpr (std::same_as<As, std::string>) {
        return text();
    } else if constexpr (std::same_as<As, bool> || std::same_as<As, double>) {
        return std::get<As>(value_);
    } else if constexpr (std::integral<As>) {
        return static_cast<As>(std::get<std::int64_t>(value_));
    } else {
        auto list = As{};
        for (const auto& element : *this) list.push_back(element.template get<typename As::value_type>());
        return list;
    }
}

/// Reads a JSON object. Throws UsageError, which begins with `source`, for a syntax error (with its place), a
/// repeated key, and exceeded Limits.
Json parse_json(std::string_view text, std::string_view source, int keys = most_keys);

/// Returns the tables of a TOML text. Throws UsageError, which begins with `source`, for a syntax error (with
/// its line) and exceeded Limits.
Json parse_toml(std::string_view text, std::string_view source);

/// Returns the value of a YAML document, with the words of YAML 1.1 that PyYAML reads: `yes` is true, `~` is
/// null, `<<` merges. Throws UsageError, which begins with `source`, for a syntax error (with its line), a
/// second document and exceeded Limits, which count each alias with all that it stands for.
Json parse_yaml(std::string_view text, std::string_view source);

/// Returns a value as text for errors.
std::string excerpt(const Json& value);

}  // namespace rankmesh::formats
