// SPDX-License-Identifier: Apache-2.0
#include "convert/converters.hpp"

namespace rankmesh::conversion {

namespace of_rankmesh_text {

Arrangement read(Settings& settings, std::optional<int> world) {
    return arrangement_of(parse_job(settings.text(), world));
}

Document write(const Arrangement& arrangement) { return {Json::object(), to_string(arrangement)}; }

}  // namespace of_rankmesh_text

Converter rankmesh_text() {
    return {.name = "rankmesh",
            .of = "a mesh, outermost axis first; one of experts after ';', of other ranks after '+'",
            .example = "'pp=2 dp=4 tp=2'",
            .read = of_rankmesh_text::read,
            .write = of_rankmesh_text::write,
            .takes_jobs = true,
            .own_names = true};
}

}  // namespace rankmesh::conversion
