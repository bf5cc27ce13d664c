// SPDX-License-Identifier: Apache-2.0
// JSON as a value; json.cpp alone includes the library that reads and writes it, which takes seconds to
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

namespace rankmesh::formats {

class Limits;

/// A JSON value, whose objects keep the order in which their keys were set.
///
///     auto out = Json{{"mesh", "pp=2 tp=2"}, {"ranks", {0, 1, 2, 3}}};
///     out["size"] = 4;
///     out.dump();  // {"mesh":"pp=2 tp=2","ranks":[0,1,2,3],"size":4}
class Json {
public:
    using Array = std::vector<Json>;
    using Object = std::vector<std::pair<std::string, Json>>;
    /// Whole numbers are unsigned only where a signed one does not hold them.
    using Value =
        std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

    /// The text is no JSON from byte number `byte` on, counted from 1; `number` is one that no double holds,
    /// if that is why.
    struct SyntaxError : std::runtime_error {
        SyntaxError(std::size_t byte, std::string number)
            : std::runtime_error("no JSON"), byte(byte), number(std::move(number)) {}
        std::size_t byte;
        std::string number;
    };

    Json(std::nullptr_t = nullptr);
    template <std::integral Number>  // a template, so that no pointer becomes a bool
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
    /// An object where every element is a pair whose first is a text, else an array.
    Json(std::initializer_list<Json> list);

    Json(const Json&);
    Json(Json&&) noexcept;
    Json& operator=(const Json&);
    Json& operator=(Json&&) noexcept;
    ~Json();

    static Json array(std::initializer_list<Json> list = {});
    static Json object();
    /// Reads JSON, in which comments may stand; throws SyntaxError. Of a key that an object has twice the
    /// last value stays; with limits it is a UsageError, as is more than they allow.
    static Json parse(std::string_view text, Limits* limits = nullptr);
    /// The text: on one line, or with `indent` blanks a level. Throws where a text in it is no UTF-8.
    std::string dump(int indent = -1) const;

    bool is_null() const;
    bool is_boolean() const;
    bool is_number() const;
    bool is_number_integer() const;
    bool is_number_float() const;
    bool is_string() const;
    bool is_array() const;
    bool is_object() const;

    const Value& value() const { return value_; }
    /// The value, of an array as a vector; throws std::bad_variant_access for one of another kind.
    template <class As>
    As get() const;
    const std::string& text() const;
    /// Of an array: its elements.
    Array::const_iterator begin() const;
    Array::const_iterator end() const;
    /// Of an object: its keys and values.
    const Object& items() const;

    /// How many elements an array has, or keys an object.
    std::size_t size() const;
    bool contains(std::string_view key) const;
    /// Of an object; null becomes one, and a key that is not there null.
    Json& operator[](std::string_view key);
    /// Throws std::out_of_range for a key that is not there.
    const Json& operator[](std::string_view key) const;
    /// Adds to an object a key that it lacks, which is not looked for: 10,000 of them would be looked for
    /// 10^8 times.
    void add(std::string key, Json value);
    /// To the end of an array; null becomes one.
    void push_back(Json element);
    /// Sets every key of another object.
    void update(const Json& other);
    void erase(std::string_view key);

    bool operator==(const Json& other) const;
    /// Unordered where this is no whole number.
    std::partial_ordering operator<=>(std::int64_t number) const;

private:
    explicit Json(Value value);
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

/// An object in JSON; throws UsageError that begins with `source`, with the place of a syntax error, for a
/// key that an object has twice, and for more than Limits allow.
Json parse_json(std::string_view text, std::string_view source);

/// A value as an error repeats it.
std::string excerpt(const Json& value);

}  // namespace rankmesh::formats
