// SPDX-License-Identifier: Apache-2.0
// Reads the connection between each two GPUs of a machine: what `nvidia-smi topo -m`, `rocm-smi --showtopo`
// and `amd-smi topology`, also with --json, print.
#include <array>
#include <numeric>

#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

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

/// Returns true for `GPU0` of `GPU`.
bool is_numbered(std::string_view word, std::string_view name) {
    return word.starts_with(name) && word.size() > name.size() &&
           word.find_first_not_of("0123456789", name.size()) == std::string_view::npos;
}

int distance_of(const Text& text, int line, std::string_view word) {
    if (word == "X") return -1;
    if (is_numbered(word, "NV")) return 0;
    if (word == "SOC") return 5;  // drivers before 384
    for (std::size_t i = 1; i < distances.size(); ++i)
        if (word == distances[i].word) return static_cast<int>(i);
    text.fail(line, cat(in_quotes(word),
                        " is not a path between GPUs; paths are NV1 and more, PIX, PXB, PHB, NODE and SYS"));
}

/// Reads a line of distances for each GPU; `distance_of` returns -1 for the GPU itself.
std::vector<std::vector<int>> matrix_of(const Text& text, std::vector<Line>::const_iterator line,
                                        std::vector<Line>::const_iterator end,
                                        const std::vector<std::string>& gpus,
                                        int (*distance_of)(const Text& text, int line,
                                                           std::string_view word)) {
    auto matrix = std::vector<std::vector<int>>{};
    for (; line != end && matrix.size() < gpus.size(); ++line) {
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
            const auto distance = distance_of(text, line->number, word);
            if ((distance < 0) != (i == matrix.size()))
                text.fail(line->number, cat(gpus[matrix.size()], " to ", gpus[i], " is ", in_quotes(word),
                                            "; only the diagonal is a GPU itself"));
            row.push_back(std::max(distance, 0));
            if (i < matrix.size() && matrix[i][matrix.size()] != row.back())
                text.fail(line->number, cat(gpus[matrix.size()], " to ", gpus[i], " is ", in_quotes(word),
                                            ", but the way back is another"));
        }
        matrix.push_back(std::move(row));
    }
    if (matrix.size() < gpus.size()) text.fail(0, cat("ends before the line of ", gpus[matrix.size()]));
    return matrix;
}

/// The distance of a link type of AMD's tools.
int distance_of_link(const Text& text, int line, std::string_view word) {
    if (word == "0" || word == "SELF") return -1;
    if (word == "XGMI") return 0;
    if (word == "PCIE" || word == "N/A" || word == "UNKNOWN") return 5;
    text.fail(line, cat(in_quotes(word), " is not a link between GPUs; links are XGMI and PCIE"));
}

/// Reads a list of GPUs, each with its links to all, in any order.
Levels read_amd_smi_json(const Text& text) {
    const auto all = json_of(text);
    const auto gpus = elements_of(all);
    if (gpus.empty() || gpus.size() > most_gpus)
        text.fail(0, cat("lists ", gpus.size(), " GPUs; 1 to ", most_gpus, " are supported"));
    const auto number = [&](const Json& of) {
        const auto gpu = number_of(text, 0, text_of(value_at(of, {"gpu"})), "a GPU's number", 0);
        if (gpu >= static_cast<int>(gpus.size()))
            text.fail(0, cat("names GPU ", gpu, ", but lists only ", gpus.size(),
                             "; give all GPUs of the machine"));
        return static_cast<std::size_t>(gpu);
    };
    auto matrix = std::vector(gpus.size(), std::vector<int>(gpus.size(), 5));
    for (const auto& gpu : gpus) {
        const auto links = elements_of(value_at(gpu, {"links"}));
        if (links.size() != gpus.size())
            text.fail(0, cat("lists ", links.size(), " links of a GPU, not one to each of the ", gpus.size(),
                             "; give what amd-smi topology prints without --json"));
        for (const auto& link : links) {
            const auto distance = distance_of_link(text, 0, text_of(value_at(link, {"link_type"})));
            matrix[number(gpu)][number(link)] = std::max(distance, 0);
        }
    }
    return levels_of_gpus(text, matrix, "xgmi");
}

}  // namespace of_nvidia_smi

Levels read_nvidia_smi(const Text& text) {
    using namespace of_nvidia_smi;
    const auto plain = formats::without_escapes(text.content);
    const auto lines = lines_of(plain);
    const auto is_heading = [](const Line& line) {
        return is_numbered(line.words().front(), "GPU") &&
               (line.words().size() == 1 || !line.words()[1].starts_with("X"));
    };
    const auto heading = std::ranges::find_if(lines, is_heading);
    if (heading == lines.end()) text.fail(0, "has no heading with GPU0, GPU1, ...");
    auto gpus = std::vector<std::string>{};
    for (const auto word : heading->words()) {
        if (!is_numbered(word, "GPU")) break;
        if (word != cat("GPU", gpus.size()))
            text.fail(heading->number,
                      cat("the heading has ", in_quotes(word), " where GPU", gpus.size(), " is next"));
        gpus.emplace_back(word);
        if (gpus.size() > most_gpus)
            text.fail(heading->number, cat("the heading has more than ", most_gpus, " GPUs"));
    }
    return levels_of_gpus(text, matrix_of(text, heading + 1, lines.end(), gpus, distance_of));
}

Levels read_amd_smi(const Text& text) {
    using namespace of_nvidia_smi;
    if (formats::trimmed(text.content).starts_with('[')) return read_amd_smi_json(text);
    const auto lines = lines_of(text.content);
    const auto title = std::ranges::find_if(lines, [](const Line& line) {
        return line.text.find("Link Type between") != std::string::npos || line.text == "LINK TYPE TABLE:";
    });
    if (title == lines.end() || title + 1 == lines.end()) text.fail(0, "has no table of link types");
    const auto heading = (title + 1)->words();
    if (heading.size() > most_gpus)
        text.fail((title + 1)->number, cat("the heading has more than ", most_gpus, " GPUs"));
    const auto gpus = std::vector<std::string>(heading.begin(), heading.end());
    auto matrix = matrix_of(text, title + 2, lines.end(), gpus, distance_of_link);
    // rocm-smi also prints: GPU[0] : (Topology) Numa Node: 0
    auto numas = std::vector<std::string_view>(gpus.size());
    for (const auto& line : lines) {
        const auto words = line.words();
        if (line.text.find("Numa Node:") == std::string::npos || !words[0].starts_with("GPU[")) continue;
        const auto gpu =
            number_of(text, line.number, words[0].substr(4, words[0].find(']') - 4), "the GPU", 0);
        if (gpu < static_cast<int>(numas.size())) numas[static_cast<std::size_t>(gpu)] = words.back();
    }
    for (std::size_t i = 0; i < matrix.size(); ++i)
        for (std::size_t j = 0; j < matrix.size(); ++j)
            if (matrix[i][j] == 5 && !numas[i].empty() && numas[i] == numas[j]) matrix[i][j] = 4;
    return levels_of_gpus(text, matrix, "xgmi");
}

Levels levels_of_gpus(const Text& text, const std::vector<std::vector<int>>& matrix,
                      std::string_view nearest) {
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
        const auto level = most == 0 ? nearest : distances[static_cast<std::size_t>(most)].level;
        divisions.push_back({std::string(level), std::move(units)});
    }
    return levels_of(text, divisions, "gpu", static_cast<int>(matrix.size()));
}

}  // namespace rankmesh::cluster_files
