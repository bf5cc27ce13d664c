// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/fields.hpp"

namespace rankmesh::detail {

/// Texts as one, each with its length before it.
inline std::string pack_texts(const std::vector<std::string>& texts) {
    auto bytes = std::string{};
    for (const auto& each : texts) append(bytes, cat(each.size(), " ", each));
    return bytes;
}

/// Reads what `pack_texts` has written; throws EngineFailure for anything else.
inline std::vector<std::string> unpack_texts(std::string_view bytes) {
    auto texts = std::vector<std::string>{};
    for (auto fields = Fields(bytes, "what another rank says"); !fields.at_end();)
        texts.push_back(fields.part(fields.number()));
    return texts;
}

}  // namespace rankmesh::detail
