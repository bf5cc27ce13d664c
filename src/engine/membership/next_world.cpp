// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/next_world.hpp"

#include <rankmesh/core/text.hpp>

#include "engine/fields.hpp"
#include "engine/texts.hpp"

namespace rankmesh::detail {
namespace {

/// Begins an outcome that is a world.
constexpr auto entered = "entered";

}  // namespace

int read_number(const std::string& text) {
    return static_cast<int>(Fields(text + " ", "what another rank says").number());
}

std::string to_text(const Listed& listed) {
    auto parts = std::vector<std::string>{entered, listed.world.common, listed.world.scope};
    for (std::size_t i = 0; i < listed.secrets.size(); ++i)
        parts.insert(parts.end(),
                     {std::to_string(listed.world.places[i]), listed.secrets[i], listed.world.abouts[i]});
    return pack_texts(parts);
}

std::optional<Listed> read_listed(const std::vector<std::string>& parts, const std::string& scope) {
    if (parts.size() < 3 || parts[0] != entered || parts.size() % 3 != 0) return std::nullopt;
    auto listed = Listed{};
    listed.world.common = parts[1];
    listed.world.scope = parts[2];
    for (std::size_t i = 3; i < parts.size(); i += 3) {
        listed.world.places.push_back(read_number(parts[i]));
        listed.secrets.push_back(parts[i + 1]);
        listed.world.abouts.push_back(parts[i + 2]);
    }
    listed.world.outcome = cat(scope, "outcome");
    return listed;
}

}  // namespace rankmesh::detail
