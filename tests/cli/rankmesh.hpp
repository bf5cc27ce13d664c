// SPDX-License-Identifier: Apache-2.0
// The real command, driven through a shell in which no launcher announces anything.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <rankmesh/core/mesh.hpp>

#include "support/command.hpp"
#include "support/fewer.hpp"

namespace rankmesh::tests {

inline const std::string clean =
    "unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_STEP_NUM_TASKS "
    "RANK "
    "WORLD_SIZE RANKMESH_WORLD_SIZE RANKMESH_DEVICE NO_COLOR COLUMNS; export TERM=xterm; ";
inline const std::string command = "'" RANKMESH_COMMAND "' ";

inline support::Outcome rankmesh(const std::string& words, const std::string& environment = "") {
    return support::run(clean + environment + " " + command + words);
}

inline nlohmann::json json_of(const std::string& words, const std::string& environment = "") {
    return nlohmann::json::parse(rankmesh(words + " 2>/dev/null", environment).output);
}

inline std::vector<std::string> lines_of(const std::string& text) {
    auto lines = std::vector<std::string>{};
    auto stream = std::istringstream(text);
    for (auto line = std::string{}; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

/// The lines of more than `width` columns, in characters of UTF-8.
inline std::vector<std::string> wider_than(std::size_t width, const std::string& text) {
    auto lines = lines_of(text);
    std::erase_if(lines, [&](const std::string& line) {
        return static_cast<std::size_t>(
                   std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; })) <= width;
    });
    return lines;
}

/// What bash is offered for the last of these words, behind `rankmesh`.
inline std::vector<std::string> completed(const std::string& words) {
    return lines_of(rankmesh("completion bash -- " + words).output);
}

inline std::string quoted(const Mesh& mesh) { return "'" + to_string(mesh) + "'"; }

inline std::vector<Mesh> meshes() {
    auto meshes = std::vector<Mesh>{};
    for (const auto* text :
         {"a=1", "dp=7", "pp=4 dp=2 tp=3", "pp=2 cp=1 dp=5 tp=1", "pp=2:32 dp=4:8 @64", "pp=2:1 dp=4:2",
          "a=(2,2):(8,1) b=4:2", "a-b=2 a.c=2 a_d=2", "a=2 b=2 c=2 d=2 e=2 f=2"})
        meshes.push_back(Mesh::parse(text));
    return support::fewer_if_sanitized(meshes);
}

}  // namespace rankmesh::tests
