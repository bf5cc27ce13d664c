// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rankmesh::detail {

/// A unit and its power of ten: `{"GB/s", 9}`.
struct Unit {
    std::string_view name;
    int exponent;
};

inline constexpr Unit bandwidth_units[] = {{"TB/s", 12}, {"GB/s", 9}, {"MB/s", 6}, {"kB/s", 3}, {"B/s", 0}};
inline constexpr Unit latency_units[] = {{"s", 0}, {"ms", -3}, {"us", -6}, {"ns", -9}};

/// Returns the value in the largest of `units` in which it is 1 or more, with the fewest digits that read
/// back exactly.
///
/// Law: `decimal(digits, exponent)` of the two parts of the text equals the value.
std::string quantity_to_string(double value, std::span<const Unit> units);

/// Returns `digits` times 10^`exponent`, rounded once; a negative number if `digits` is not a number such as
/// `25` or `2.5`.
double decimal(std::string_view digits, int exponent);

}  // namespace rankmesh::detail
