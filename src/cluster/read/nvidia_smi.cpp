// SPDX-License-Identifier: Apache-2.0
// Reads the output of `nvidia-smi topo -m`: the connection between each two GPUs of a machine.
#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include "cluster/read/formats.hpp"

#include <rankmesh/core/error.hpp>

namespace rankmesh::cluster_files {

using detail::cat;
using detail::in_quotes;

namespace of_nvidia_smi {

/// Connections from near to far: what the path between two GPUs crosses, and the level that contains such
/// GPUs.
struct Distance {
    std::string_view word;
    std::string_view level;
};
constexpr auto distances =
    std::array{Distance{"NV", "nvlink"},       Distance{"PIX", "pcie-switch"}, Distance{"PXB", "pcie"},
               Distance{"PHB", "host-bridge"}, Distance{"NODE", "numa"},       Distance{"SYS", "machine"}};
constexpr auto most_gpus = 1024;

bool is_gpu(std::string_view word) {
    return word.starts_with("GPU") && word.size() > 3 &&
           std::ranges::all_of(word.substr(3), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Removes the escape sequences that underline the heading on a terminal.
std::string without_escapes(std::string_view text) {
    auto out = std::string{};
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text.substr(at, 2) != "\x1b[") {
            out += text[at];
            continue;
        }
        at = std::min(text.find('m', at), text.size());
    }
    return out;
}

int distance_of(const Text& text, int line, std::string_view word) {
    const auto is_nvlink =
        word.starts_with("NV") && word.size() > 2 &&
        std::ranges::all_of(word.substr(2), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_nvlink) return 0;
    for (std::size_t i = 1; i < distances.size(); ++i)
        if (word == distances[i].word) return static_cast<int>(i);
    text.fail(line, cat(in_quotes(word),
                        " is not a path between GPUs; paths are NV1 and more, PIX, PXB, PHB, NODE and SYS"));
}

}  // namespace of_nvidia_smi

Levels read_nvidia_smi(const Text& text) {
    using namespace of_nvidia_smi;
    const auto plain = without_escapes(text.content);
    const auto lines = lines_of(plain);
    const auto is_heading = [](const Line& line) {
        return is_gpu(line.words().front()) &&
               (line.words().size() == 1 || !line.words()[1].starts_with("X"));
    };
    const auto heading = std::ranges::find_if(lines, is_heading);
    if (heading == lines.end()) text.fail(0, "has no heading with GPU0, GPU1, ...");
    auto gpus = std::vector<std::string>{};
    for (const auto word : heading->words()) {
        if (!is_gpu(word)) break;
        if (word != cat("GPU", gpus.size()))
            text.fail(heading->number,
                      cat("the heading has ", in_quotes(word), " where GPU", gpus.size(), " is next"));
        gpus.emplace_back(word);
        if (gpus.size() > most_gpus)
            text.fail(heading->number, cat("the heading has more than ", most_gpus, " GPUs"));
    }
    auto matrix = std::vector<std::vector<int>>{};
    for (auto line = heading + 1; line != lines.end() && matrix.size() < gpus.size(); ++line) {
        const auto words = line->words();
        if (words.front() != gpus[matrix.size()])
            text.fail(line->number, cat("begins with ", in_quotes(words.front()), " where the line of ",
                                        gpus[matrix.size()], " is next"));
        if (words.size() < gpus.size() + 1)
            text.fail(line->number,
                      cat("has ", words.size() - 1, " entries, fewer than the ", gpus.size(), " GPUs"));
        auto row = std::vector<int>{};
        for (std::size_t i = 0; i < gpus.size(); ++i) {
            const auto word = words[i + 1];
            if ((word == "X") != (i == matrix.size()))
                text.fail(line->number, cat(gpus[matrix.size()], " to ", gpus[i], " is ", in_quotes(word),
                                            "; X must be on the diagonal only"));
            row.push_back(word == "X" ? 0 : distance_of(text, line->number, word));
            if (i < matrix.size() && matrix[i][matrix.size()] != row.back())
                text.fail(line->number,
                          cat(gpus[matrix.size()], " to ", gpus[i], " is ", in_quotes(word),
                              ", but the way back is ",
                              distances[static_cast<std::size_t>(matrix[i][matrix.size()])].word));
        }
        matrix.push_back(std::move(row));
    }
    if (matrix.size() < gpus.size())
        text.fail(lines.back().number, cat("ends before the line of ", gpus[matrix.size()]));
    return levels_of_gpus(text, matrix);
}

Levels levels_of_gpus(const Text& text, const std::vector<std::vector<int>>& matrix) {
    using namespace of_nvidia_smi;
    // For each distance, from far to near: which GPUs are connected by paths of at most this distance.
    auto divisions = std::vector<Division>{};
    for (auto most = static_cast<int>(distances.size()) - 1; most >= 0; --most) {
        auto units = std::vector<int>(matrix.size());
        std::iota(units.begin(), units.end(), 0);
        for (std::size_t i = 0; i < matrix.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                if (matrix[i][j] <= most && units[i] != units[j])
                    std::ranges::replace(units, std::max(units[i], units[j]), std::min(units[i], units[j]));
        // If several distances give equal divisions, keep the nearest, which describes best what the GPUs
        // share.
        if (!divisions.empty() && divisions.back().units == units) divisions.pop_back();
        divisions.push_back({std::string(distances[static_cast<std::size_t>(most)].level), std::move(units)});
    }
    return levels_of(text, divisions, "gpu", static_cast<int>(matrix.size()));
}

}  // namespace rankmesh::cluster_files
