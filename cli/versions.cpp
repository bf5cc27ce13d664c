// SPDX-License-Identifier: Apache-2.0
#include "versions.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include <rankmesh/engine/built.hpp>

#include "formats/text.hpp"

namespace rankmesh::cli {

namespace {

/// Prints a name and a version a line, such as `Python 3.11.2`.
constexpr auto command = R"(exec 2>/dev/null
c++ --version | sed -n '1 { /clang/ s/.*version \([0-9.]*\).*/Clang \1/p; t; s/.* /GCC /p }'
python3 -c 'import platform; print("Python", platform.python_version(), flush=True)
import importlib.metadata; print("PyTorch", importlib.metadata.version("torch"))')";

std::string output_of_command() {
    auto text = std::string{};
    auto piece = std::array<char, 256>{};
    const auto pipe = std::unique_ptr<FILE, int (*)(FILE*)>(popen(command, "r"), pclose);
    while (pipe && std::fgets(piece.data(), piece.size(), pipe.get()) != nullptr) text += piece.data();
    return text;
}

}  // namespace

of_versions::Versions found_versions(const std::string& nccl) {
    auto lines = output_of_command();
    for (const auto& [engine, library] : built_engines())
        if (engine != "nccl") lines += library + "\n";  // of NCCL, it is the header's
    if (!nccl.empty()) lines += "NCCL " + nccl;
    auto versions = of_versions::Versions{};
    for (const auto line : formats::split(lines, '\n'))
        for (const auto& library : of_versions::libraries)
            if (line.starts_with(std::string(library.name) + " "))
                versions.emplace_back(library.key, line.substr(line.find_first_of("0123456789")));
    return versions;
}

}  // namespace rankmesh::cli
