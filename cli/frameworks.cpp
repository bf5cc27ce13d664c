// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <rankmesh/convert/convert.hpp>

#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_frameworks {

struct Arguments {
    bool json = false;
};

int run(const Arguments& arguments, Output& output) {
    const auto all = known_frameworks();
    if (arguments.json) {
        auto list = Json::array();
        for (const auto& one : all)
            list.push_back({{"name", one.name},
                            {"version", one.version},
                            {"settings", one.settings},
                            {"example", one.example}});
        output.print("{}\n", list.dump());
        return 0;
    }
    auto rows = std::vector<std::vector<std::string>>{};
    for (const auto& one : all)
        rows.push_back({std::string(one.name), one.version.empty() ? "-" : std::string(one.version),
                        std::string(one.settings)});
    output.write(table(rows, 3, 0));
    return 0;
}

}  // namespace of_frameworks

Subcommand frameworks() {
    const auto arguments = std::make_shared<of_frameworks::Arguments>();
    return {.name = "frameworks",
            .help = "List the supported frameworks, their versions and their settings.",
            .options = {{"--json", "print JSON; docs/json.md describes it", &arguments->json}},
            .run = [arguments](Output& output) { return of_frameworks::run(*arguments, output); },
            .group = Group::plan,
            .examples = {"rankmesh frameworks"},
            .notes = "Settings and groups match this version of each framework."};
}

}  // namespace rankmesh::cli
