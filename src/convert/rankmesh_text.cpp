// SPDX-License-Identifier: Apache-2.0
#include "convert/converters.hpp"

namespace rankmesh::conversion {

namespace of_rankmesh_text {

Arrangement read(Settings& settings, std::optional<int> world) {
    return parse_arrangement(settings.text(), world);
}

Document write(const Arrangement& arrangement) { return {Json::object(), to_string(arrangement)}; }

}  // namespace of_rankmesh_text

Converter rankmesh_text() {
    return {.name = "rankmesh",
            .of = "a mesh, outermost axis first; with experts a second one after ';'",
            .example = "'pp=2 dp=4 tp=2'",
            .read = of_rankmesh_text::read,
            .write = of_rankmesh_text::write,
            .own_names = true};
}

}  // namespace rankmesh::conversion
