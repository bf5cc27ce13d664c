// SPDX-License-Identifier: Apache-2.0
#include "cluster/quantity.hpp"

#include <array>
#include <charconv>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

double decimal(std::string_view digits, int exponent) {
    const auto text = cat(digits, "e", exponent);
    return number_in<double>(text).value_or(-1.0);
}

std::string quantity_to_string(double value, std::span<const Unit> units) {
    if (value == 0.0) return cat("0", units.front().name);
    auto unit = units.back();
    for (auto i = units.size(); i-- > 0;)
        if (value >= decimal("1", units[i].exponent)) unit = units[i];

    // Scientific notation has the fewest digits. Moving only its point avoids a second rounding.
    auto buffer = std::array<char, 64>{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
    const auto text = std::string_view(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    const auto e = text.find('e');
    auto digits = std::string(text.substr(0, 1));
    if (e > 2) digits += text.substr(2, e - 2);
    auto power = 0;
    const auto sign = text[e + 1] == '+' ? e + 2 : e + 1;
    std::from_chars(text.data() + sign, end, power);

    const auto point = 1 + power - unit.exponent;  // digits before the point
    if (point <= 0) digits.insert(0, static_cast<std::size_t>(1 - point), '0');
    const auto before = static_cast<std::size_t>(point <= 0 ? 1 : point);
    if (digits.size() < before) digits.append(before - digits.size(), '0');
    if (digits.size() > before) digits.insert(before, 1, '.');
    return digits + std::string(unit.name);
}

}  // namespace rankmesh::detail
