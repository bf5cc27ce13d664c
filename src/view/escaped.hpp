// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace rankmesh::view
