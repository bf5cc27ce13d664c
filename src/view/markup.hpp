// SPDX-License-Identifier: Apache-2.0
// What SVG and HTML share: escaped text and colours; and the parts of the page.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <string_view>

namespace rankmesh::view {

/// Returns text, escaped for SVG and HTML.
inline std::string escaped(std::string_view text) {
    auto out = std::string{};
    for (auto c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else
            out += c;
    }
    return out;
}

/// The palette of Okabe and Ito, which colour-blind people can distinguish.
inline constexpr std::string_view palette[] = {"#0072b2", "#e69f00", "#cc79a7", "#009e73",
                                               "#d55e00", "#56b4e9", "#f0e442", "#999999"};

/// A ramp from dark to light, perceptually uniform also for colour-blind people: cividis (Nuñez, Anderton,
/// Renslow, 2018) without its darkest tenth, which is not visible on a dark page.
inline constexpr std::string_view ramp[] = {"#123570", "#3b496c", "#575d6d", "#707173", "#8a8678",
                                            "#a59c74", "#c3b369", "#e1cc55", "#fee838"};

using Rgb = std::array<double, 3>;

inline Rgb rgb_of(std::string_view color) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    auto rgb = Rgb{};
    for (std::size_t i = 0; i < 3; ++i) rgb[i] = 16 * digit(color[1 + 2 * i]) + digit(color[2 + 2 * i]);
    return rgb;
}

/// Returns the colour of an index on an axis: from the palette, or interpolated from the ramp if the palette
/// is too small.
inline Rgb color_of(int index, int size) {
    if (size <= static_cast<int>(std::size(palette))) return rgb_of(palette[static_cast<std::size_t>(index)]);
    const auto at = static_cast<double>(index) / (size - 1) * (std::size(ramp) - 1);
    const auto low = std::min(static_cast<std::size_t>(at), std::size(ramp) - 2);
    const auto from = rgb_of(ramp[low]);
    const auto to = rgb_of(ramp[low + 1]);
    auto rgb = Rgb{};
    for (std::size_t i = 0; i < 3; ++i)
        rgb[i] = from[i] + (at - static_cast<double>(low)) * (to[i] - from[i]);
    return rgb;
}

/// Returns WCAG's relative luminance, from 0 (black) to 1 (white).
inline double luminance_of(const Rgb& rgb) {
    const auto linear = [](double channel) {
        const auto c = channel / 255;
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
}

/// Returns true if black text has more contrast with the colour than white text. The better contrast is at
/// least 4.58.
inline bool takes_black_text(const Rgb& rgb) { return luminance_of(rgb) > 0.179; }

/// Returns `#0072b2`.
inline std::string to_text(const Rgb& rgb) {
    auto text = std::string("#");
    for (const auto channel : rgb) {
        const auto value = static_cast<unsigned>(channel + 0.5);
        text += "0123456789abcdef"[value / 16];
        text += "0123456789abcdef"[value % 16];
    }
    return text;
}

// The files of src/view/page, which CMake compiles into a source: the page with the placeholders `@title@`,
// `@style@`, `@data@` and `@script@`, and what stands there for every mesh.
extern const std::string_view page_html;
extern const std::string_view page_style;
extern const std::string_view page_script;

}  // namespace rankmesh::view
