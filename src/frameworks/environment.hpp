// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <optional>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/frameworks/error.hpp>

namespace rankmesh::frameworks {

/// The whole number in an environment variable; nothing if the variable is not set. Throws Error for other
/// text.
inline std::optional<int> number_in_environment(const char* name) {
    const auto* text = std::getenv(name);
    if (!text) return std::nullopt;
    const auto number = detail::number_in(text);
    if (!number) throw Error(Fault::argument, detail::cat(name, " is '", text, "', which is no number"));
    return number;
}

}  // namespace rankmesh::frameworks
