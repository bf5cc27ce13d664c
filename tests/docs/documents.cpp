// SPDX-License-Identifier: Apache-2.0
// Documents tell the truth: every command they show prints what they show, and every snippet is part of a
// source that is compiled and run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/command.hpp"
#include "support/processes.hpp"

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
    auto lines = Lines{};
    auto stream = std::istringstream(text);
    for (auto line = std::string{}; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

std::string content_of(const fs::path& path) {
    auto stream = std::ifstream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
}

struct Block {
    std::string kind;  // what follows the opening fence
    Lines lines;
    std::string where;
};

std::vector<Block> blocks_of(const fs::path& path) {
    auto blocks = std::vector<Block>{};
    auto inside = false;
    auto number = 0;
    for (const auto& line : lines_of(content_of(path))) {
        ++number;
        if (line.starts_with("```")) {
            if (!inside)
                blocks.push_back(
                    {line.substr(3), {}, path.filename().string() + ":" + std::to_string(number)});
            inside = !inside;
        } else if (inside) {
            blocks.back().lines.push_back(line);
        }
    }
    return blocks;
}

std::vector<Block> all_blocks(const std::string& kind) {
    auto paths = std::vector<fs::path>{RANKMESH_SOURCE "/README.md"};
    for (const auto& entry : fs::recursive_directory_iterator(RANKMESH_SOURCE "/docs"))
        if (entry.path().extension() == ".md") paths.push_back(entry.path());
    auto blocks = std::vector<Block>{};
    for (const auto& path : paths)
        for (const auto& block : blocks_of(path))
            if (block.kind == kind) blocks.push_back(block);
    return blocks;
}

/// True if `actual` is `expected`, where a line `...` stands for any lines.
bool matches(const Lines& expected, const Lines& actual, std::size_t e = 0, std::size_t a = 0) {
    for (; e < expected.size(); ++e, ++a) {
        if (expected[e] == "...") {
            for (auto next = a; next <= actual.size(); ++next)
                if (matches(expected, actual, e + 1, next)) return true;
            return false;
        }
        if (a == actual.size() || expected[e] != actual[a]) return false;
    }
    return a == actual.size();
}

/// The lines without those that only a slow machine prints.
Lines without_progress(Lines lines) {
    std::erase_if(lines, [](const std::string& line) { return line.find(" verified, now ") != line.npos; });
    return lines;
}

/// The lines without what differs from run to run: times with a tenth, such as `1.1 s`, and whose timeout
/// was the first to expire.
Lines without_chance(Lines lines) {
    for (auto& line : lines) {
        line = std::regex_replace(line, std::regex("[0-9]+\\.[0-9] s"), "T s");
        line = std::regex_replace(line, std::regex("expired on rank [0-9]+"), "expired on rank R");
    }
    return lines;
}

std::string joined(const Lines& lines) {
    auto text = std::string{};
    for (const auto& line : lines) text += line + "\n";
    return text;
}

/// The lines without blanks at the ends: what two pieces of code are compared by.
std::string bare(const Lines& lines) {
    auto text = std::string{};
    for (const auto& line : lines) {
        const auto begin = line.find_first_not_of(' ');
        if (begin != std::string::npos) text += line.substr(begin) + "\n";
    }
    return text;
}

/// Runs the commands of a block in a folder, and holds what each prints; returns how many they are. Commands
/// that begin with `export` hold for those behind them.
int expect_prints(const Block& block, const std::string& folder, const std::string& path) {
    auto count = 0;
    auto variables = std::string("unset COLUMNS; export " RANKMESH_ENVIRONMENT "; ");
    for (std::size_t i = 0; i < block.lines.size(); ++count) {
        if (!block.lines[i].starts_with("$ ")) {
            ADD_FAILURE() << block.where << " does not begin with a command";
            return count;
        }
        const auto command = block.lines[i].substr(2);
        auto expected = Lines{};
        for (++i; i < block.lines.size() && !block.lines[i].starts_with("$ "); ++i)
            expected.push_back(block.lines[i]);
        const auto outcome =
            support::run("PATH=\"" + path + ":$PATH\"; cd \"" + folder + "\"; " + variables + command);
        EXPECT_TRUE(
            matches(without_chance(expected), without_chance(without_progress(lines_of(outcome.output)))))
            << block.where << ": " << command << "\nshows\n"
            << joined(expected) << "prints\n"
            << outcome.output;
        if (command.starts_with("export ")) variables += command + "\n";
    }
    return count;
}

}  // namespace

TEST(Documents, ACommandPrintsWhatTheDocumentShows) {
    auto count = 0;
    for (const auto& block : all_blocks("console"))
        count += expect_prints(block, RANKMESH_SOURCE, RANKMESH_BIN ":" RANKMESH_EXAMPLES);
    EXPECT_GT(count, 5);
}

#ifdef RANKMESH_TRAIN
TEST(Documents, AJobOnGlooPrintsWhatTheDocumentShows) {
    const auto blocks = all_blocks("console gloo");
    for (const auto& block : blocks) {
        const auto folder = support::Folder();
        EXPECT_GE(expect_prints(block, folder.path(), RANKMESH_TRAIN ":" RANKMESH_BIN ":" RANKMESH_EXAMPLES),
                  2);
    }
    EXPECT_EQ(blocks.size(), 6U);
}
#endif

TEST(Documents, ASnippetIsPartOfASourceThatIsCompiledAndRun) {
    auto sources = std::vector<std::string>{};
    for (const auto* folder : {"examples", "include", "src", "tests"})
        for (const auto& entry : fs::recursive_directory_iterator(RANKMESH_SOURCE "/" + std::string(folder)))
            if (const auto kind = entry.path().extension(); kind == ".cpp" || kind == ".hpp" || kind == ".c")
                sources.push_back(bare(lines_of(content_of(entry.path()))));
    for (const auto& [kind, least] : {std::pair("cpp", 4), std::pair("c", 1)}) {
        auto count = 0;
        for (const auto& block : all_blocks(kind)) {
            auto found = false;
            for (const auto& source : sources)
                found = found || source.find(bare(block.lines)) != std::string::npos;
            EXPECT_TRUE(found) << block.where << " is in no source:\n" << joined(block.lines);
            ++count;
        }
        EXPECT_GE(count, least) << kind;
    }
}

TEST(Documents, TheWildcardStandsForAnyLinesAndForNothingElse) {
    EXPECT_TRUE(matches({"a", "...", "c"}, {"a", "b", "b", "c"}));
    EXPECT_TRUE(matches({"a", "..."}, {"a"}));
    EXPECT_FALSE(matches({"a", "...", "c"}, {"a", "b"}));
    EXPECT_FALSE(matches({"a"}, {"a", "b"}));
}
