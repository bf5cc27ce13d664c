// SPDX-License-Identifier: Apache-2.0
// The settings of a framework, as JSON, TOML, flags or a call: what is written in another's words is read by
// it as the same mesh, and moves no rank.
#include <rankmesh/convert/convert.hpp>

#include <algorithm>
#include <vector>

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    static const auto frameworks = known_frameworks();
    if (size < 2) return 0;
    const auto text = fuzz::bytes_of(data + 2, size - 2);
    // Millions of ranks are compared one by one: here there are few, so that many settings are read.
    if (std::ranges::count_if(text, [](char c) { return c >= '0' && c <= '9'; }) > 6) return 0;
    const auto& from = frameworks[data[0] % frameworks.size()].name;
    const auto& to = frameworks[data[1] % frameworks.size()].name;
    fuzz::read_or_refuse<UsageError>([&] {
        const auto said = convert_text(from, to, text, 64);
        fuzz::require(said.settings.has_value() == said.mesh_to.has_value(),
                      "settings and their mesh are there together");
        if (!said.settings) return;
        const auto again = convert_text(to, to, *said.settings, said.ranks);
        fuzz::require(again.ranks == said.ranks, "the settings that are written are for as many ranks");
        fuzz::require(again.mesh_to == said.mesh_to && again.moved == 0,
                      "the settings that are written are those of the mesh");
    });
    return 0;
}
