// SPDX-License-Identifier: Apache-2.0
#include "frameworks.hpp"

namespace rankmesh::cli {

namespace {

Arrangement read(Settings& settings, std::optional<int> world) {
    return parse_arrangement(settings.text(), world);
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
