// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

#include "explain/read/fields.hpp"
#include "explain/read/log.hpp"

namespace rankmesh::of_log {

namespace {

using formats::Json;
using Keys = std::initializer_list<std::string_view>;

/// Returns the text or number under the first of these keys that an object has, or an object within it.
std::string text_under(const Json& object, Keys keys, int depth) {
    for (const auto key : keys)
        if (const auto* value = of_record::find(object, key); value && !value->is_object())
            return value->is_string() ? value->text() : value->dump();
    for (const auto& [key, value] : object.items())
        if (depth > 0 && value.is_object())
            if (auto text = text_under(value, keys, depth - 1); !text.empty()) return text;
    return {};
}

}  // namespace

std::optional<CollectedLine> collected_line(std::string_view line) {
    if (!line.starts_with('{')) return std::nullopt;
    try {
        const auto json = of_record::parsed(line);
        auto text = text_under(json, {"log", "message", "MESSAGE", "msg", "line", "textPayload"}, 0);
        if (text.empty()) return std::nullopt;
        const auto rank = detail::number_in(text_under(json, {"rank", "RANK", "global_rank"}, 1));
        return CollectedLine{
            std::move(text), text_under(json, {"time", "timestamp", "@timestamp", "ts"}, 0),
            text_under(json, {"host", "hostname", "_HOSTNAME", "node_name", "pod_name", "pod"}, 2),
            rank.value_or(-1) >= 0 && rank < of_record::most_world ? rank : std::nullopt};
    } catch (const UsageError&) {  // a line that begins like JSON
        return std::nullopt;
    }
}

}  // namespace rankmesh::of_log
