// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/convert/convert.hpp>

#include <rankmesh/core/detail/caller.hpp>

#include "convert/converters.hpp"

namespace rankmesh {

using conversion::converter_named;
using conversion::Settings;

namespace {

/// `read` gives the settings of a framework, once both names are known to be right.
template <class Read>
Conversion converted(std::string_view from, std::string_view to, std::optional<int> world, const Read& read) {
    const auto& source = converter_named(from, detail::in_python("from_", "--from"));
    const auto& target = converter_named(to, detail::in_python("to", "--to"));
    const auto given = conversion::read_all(source, read(source.name), world);
    auto expressed = conversion::express(target, given);
    const auto shown = conversion::taken_by(target, given);
    auto& comparison = expressed.comparison;
    auto found = Conversion{.from = std::string(from),
                            .to = std::string(to),
                            .ranks = shown.job.parts.empty() ? shown.dense().size() : shown.job.extent(),
                            .settings = {},
                            .text = {},
                            .mesh_from = to_string(shown),
                            .mesh_to = {},
                            .moved = {},
                            .first_moves = std::move(comparison.first),
                            .lost = std::move(comparison.lost),
                            .call = std::move(expressed.call),
                            .notes = given.notes};
    found.notes.insert(found.notes.end(), expressed.notes.begin(), expressed.notes.end());
    if (expressed.document) {
        found.settings = expressed.document->values.dump();
        found.text = std::move(expressed.document->text);
        found.mesh_to = to_string(*expressed.back);
        found.moved = comparison.moved;
    }
    return found;
}

}  // namespace

std::vector<FrameworkInfo> known_frameworks() {
    auto all = std::vector<FrameworkInfo>{};
    for (const auto& one : conversion::converters())
        all.push_back({one.name, one.of, one.example, one.version});
    return all;
}

std::vector<Loss> by_reason(const std::vector<Loss>& lost) {
    auto together = std::vector<Loss>{};
    for (const auto& loss : lost)
        if (!together.empty() && together.back().why == loss.why)
            together.back().what += ", " + loss.what;
        else
            together.push_back(loss);
    return together;
}

Conversion convert(std::string_view from, std::string_view to, const std::vector<std::string>& words,
                   std::optional<int> world) {
    return converted(from, to, world, [&](auto framework) { return Settings::read(framework, words); });
}

Conversion convert_text(std::string_view from, std::string_view to, std::string_view text,
                        std::optional<int> world) {
    return converted(from, to, world,
                     [&](auto framework) { return Settings::read_text(framework, std::string(text)); });
}

}  // namespace rankmesh
