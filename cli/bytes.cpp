// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

#include "output.hpp"

namespace rankmesh::cli {

namespace of_bytes {

struct Unit {
    std::string_view name;
    std::uint64_t bytes;
};

constexpr auto units = std::array<Unit, 9>{{{"TiB", std::uint64_t{1} << 40},
                                            {"GiB", std::uint64_t{1} << 30},
                                            {"MiB", std::uint64_t{1} << 20},
                                            {"KiB", std::uint64_t{1} << 10},
                                            {"B", 1},
                                            {"kB", 1'000},
                                            {"MB", 1'000'000},
                                            {"GB", 1'000'000'000},
                                            {"TB", 1'000'000'000'000}}};

}  // namespace of_bytes

Bytes read_bytes(std::string_view text, std::string_view option, std::size_t least, std::size_t most) {
    const auto wrong = [&](const std::string& what) {
        return UsageError(fmt::format(
            "{} {}; give {} to {}, as a number of bytes or with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or "
            "TiB",
            option, what, bytes_text(least), bytes_text(most)));
    };
    auto number = 0.0;
    const auto* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    auto name = std::string_view(stop, static_cast<std::size_t>(end - stop));
    if (name.starts_with(' ')) name.remove_prefix(1);
    const auto unit = std::ranges::find(of_bytes::units, name.empty() ? "B" : name, &of_bytes::Unit::name);
    if (error != std::errc{} || unit == of_bytes::units.end())
        throw wrong(fmt::format("is {}, which is not a size", detail::in_quotes(text)));
    const auto bytes = number * static_cast<double>(unit->bytes);
    if (!(bytes >= static_cast<double>(least) && bytes <= static_cast<double>(most)))
        throw wrong(fmt::format("is {}", detail::in_quotes(text)));
    if (std::abs(bytes - std::round(bytes)) > 1e-6 * bytes)
        throw wrong(fmt::format("is {}, which is not a whole number of bytes", detail::in_quotes(text)));
    return {static_cast<std::size_t>(std::llround(bytes))};
}

}  // namespace rankmesh::cli
