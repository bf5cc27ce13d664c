// SPDX-License-Identifier: Apache-2.0
#include "frameworks.hpp"
#include "settings_text.hpp"

namespace rankmesh::cli {

namespace {

Arrangement read(Settings& settings, std::optional<int> world) {
    try {
        return parse_arrangement(settings.text(), world);
    } catch (const Misuse& error) {
        // A mesh is echoed whole; of what is none the beginning will do.
        auto what = std::string(error.what());
        const auto mesh = settings.text().substr(0, settings.text().find(';'));
        const auto at = what.find(mesh);
        if (at == std::string::npos || mesh.size() <= most_echoed) throw;
        throw Misuse(what.replace(at, mesh.size(), clipped(mesh)));
    }
}

Document write(const Arrangement& arrangement) { return {Json::object(), to_string(arrangement)}; }

}  // namespace

Framework rankmesh_text() {
    return {.name = "rankmesh",
            .of = "a mesh, outermost axis first; with experts a second one after ';'",
            .example = "'pp=2 dp=4 tp=2'",
            .read = read,
            .write = write,
            .own_names = true};
}

}  // namespace rankmesh::cli
