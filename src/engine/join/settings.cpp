// SPDX-License-Identifier: Apache-2.0
#include "engine/join/settings.hpp"

#include <rankmesh/core/name.hpp>

namespace rankmesh::detail {

std::string to_text(const DeviceSettings& settings) {
    auto text = std::string{};
    const auto add = [&](const std::string& word) { append(text, cat(text.empty() ? "" : " ", word)); };
    if (settings.min_ctas) add(cat("min_ctas=", *settings.min_ctas));
    if (settings.max_ctas) add(cat("max_ctas=", *settings.max_ctas));
    if (settings.traffic_class) add(cat("traffic_class=", *settings.traffic_class));
    if (settings.high_priority) add("high_priority");
    if (!settings.name.empty()) add(cat("name=", settings.name));
    return text;
}

void check_settings(const DeviceSettings& settings, const std::string& whose) {
    const auto refuse = [&](const std::string& what) {
        throw UsageError(cat(whose, " is tuned to ", to_text(settings), "; ", what));
    };
    for (const auto& ctas : {settings.min_ctas, settings.max_ctas})
        if (ctas && (*ctas < 1 || *ctas > most_ctas))
            refuse(cat("an operation takes 1 to ", most_ctas, " CTAs"));
    if (settings.min_ctas && settings.max_ctas && *settings.min_ctas > *settings.max_ctas)
        refuse("the fewest CTAs are at most as many as the most");
    if (settings.traffic_class && *settings.traffic_class < 0) refuse("a traffic class is 0 or more");
    if (!settings.name.empty()) checked_name(settings.name);
}

}  // namespace rankmesh::detail
