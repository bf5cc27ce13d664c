// SPDX-License-Identifier: Apache-2.0
// Help, man pages and completion are of one table.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "rankmesh.hpp"
#include "support/content.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

using Lines = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string for_troff(std::string text) {
    for (auto at = text.find('-'); at != std::string::npos; at = text.find('-', at + 2))
        text.insert(at, "\\");
    return text;
}

TEST(Help, OfASubcommandIsThatOfItsFlagAndHasAnExample) {
    EXPECT_EQ(rankmesh("help").output, rankmesh("--help").output);
    const auto all = rankmesh("help").output;
    for (const auto& name : completed("''")) {
        const auto help = rankmesh("help " + name);
        EXPECT_EQ(help.exit_code, 0) << name;
        EXPECT_EQ(help.output, rankmesh(name + " --help").output);
        EXPECT_EQ(help.output, rankmesh(name + " -h").output);
        EXPECT_TRUE(help.output.starts_with("Usage: rankmesh " + name + " ")) << help.output;
        EXPECT_TRUE(has(help.output, "\nExample")) << name;
        EXPECT_TRUE(has(all, "\n  " + name + " ")) << name;
        for (const auto& option : completed(name + " --"))
            EXPECT_TRUE(has(help.output, "\n  " + option)) << name << ' ' << option;
    }
    EXPECT_EQ(rankmesh("help shwo").exit_code, 2);
    EXPECT_TRUE(rankmesh("help shwo").output.ends_with("; did you mean 'show'?\n"));
}

TEST(Help, IsFoldedToTheTerminalButForExamplesAndTables) {
    for (const auto width : {60, 80, 120})
        for (const auto& name : completed("''")) {
            auto in_options = false;
            auto in_notes = false;  // which have tables, and examples behind them
            for (const auto& line :
                 lines_of(rankmesh("help " + name, "export COLUMNS=" + std::to_string(width) + ";").output)) {
                in_options = in_options || line == "Options:";
                in_notes = in_notes || (in_options && line.empty());
                if (in_notes && line.starts_with(' ')) continue;
                EXPECT_LE(line.size(), static_cast<std::size_t>(width)) << line;
            }
        }
}

TEST(Help, WritesAManPageOfEachSubcommandWithTheSameOptions) {
    const auto folder = support::Folder{};
    ASSERT_EQ(rankmesh("help --man " + folder.path()).output, "");
    const auto page = [&](const std::string& name) {
        return support::content_of(folder.path() + "/" + name + ".1");
    };
    auto pages = std::size_t{1};
    for (const auto& name : completed("''")) {
        ++pages;
        const auto text = page("rankmesh-" + name);
        EXPECT_TRUE(text.starts_with(".TH ")) << name;
        EXPECT_TRUE(has(page("rankmesh"), "rankmesh\\-" + name + " (1)")) << name;
        for (const auto& option : completed(name + " --"))
            EXPECT_TRUE(has(text, "\n  " + for_troff(option))) << name << ' ' << option;
        for (const auto& line : lines_of(text))  // every other line is text
            if (line.starts_with("'")) ADD_FAILURE() << name << ": " << line;
    }
    EXPECT_EQ(static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {})),
              pages);
    const auto one = support::Folder{};
    rankmesh("help show --man " + one.path());
    EXPECT_EQ(support::content_of(one.path() + "/rankmesh-show.1"), page("rankmesh-show"));
    EXPECT_EQ(rankmesh("help --man /no/such/folder").exit_code, 2);
}

TEST(Completion, OffersSubcommandsOptionsAndValues) {
    EXPECT_EQ(completed("sh"), Lines{"show"});
    EXPECT_EQ(completed("--v"), Lines{"--version"});
    EXPECT_EQ(completed("help pl"), (Lines{"place", "plan"}));
    EXPECT_EQ(completed("show dp=8 --co"), Lines{"--color"});
    EXPECT_EQ(completed("show dp=8 --color ''"), (Lines{"auto", "always", "never"}));
    EXPECT_EQ(completed("show dp=8 --color al"), Lines{"always"});
    EXPECT_EQ(completed("show dp=8 --color=al"), Lines{"--color=always"});
    EXPECT_EQ(completed("show dp=8 --color = al"), Lines{"always"});  // as bash separates it
    EXPECT_EQ(completed("show dp=8 --color ="), (Lines{"auto", "always", "never"}));
    EXPECT_EQ(completed("run dp=8 --engine t"), Lines{"threads"});
    EXPECT_EQ(completed("plan llama3.1-8"), Lines{"llama3.1-8B"});
    EXPECT_EQ(completed("plan llama3.1-8B --device H100-SXM-8"), Lines{"H100-SXM-80GB"});
    EXPECT_EQ(completed("convert --from pico"), Lines{"picotron"});
    EXPECT_EQ(completed("rank 'dp=2 tp=2' 0 --as pico"), Lines{"picotron"});
    EXPECT_EQ(completed("completion f"), Lines{"fish"});
    // Behind these come files, and behind -- the framework's words.
    for (const auto* words : {"convert --from megatron ''", "convert --from megatron -- --fro",
                              "show --on ''", "draw dp=8 --out ''", "explain ''", "nonsense ''"})
        EXPECT_EQ(completed(words), Lines{}) << words;
    EXPECT_EQ(rankmesh("completion fish -- show dp=8 --colo").output,
              "--color\tuse colour: auto, always or never; default: auto\n");
    EXPECT_EQ(rankmesh("completion zsh -- show dp=8 --colo").output,
              "--color:use colour: auto, always or never; default: auto\n");
    EXPECT_EQ(rankmesh("completion zhs").output,
              "rankmesh: SHELL must be one of bash, zsh and fish, not 'zhs'; did you mean 'zsh'?\n");
}

TEST(Completion, OffersOnlyWhatTheCommandTakes) {
    for (const auto& name : completed("''"))
        for (const auto& option : completed(name + " --")) {
            const auto text = rankmesh(name + " " + option + "=").output;
            EXPECT_FALSE(has(text, "unknown option")) << name << ' ' << option << text;
        }
}

/// Runs lines in a bash that has the script, `rankmesh` being the command.
std::string in_bash(const std::string& lines) {
    const auto folder = support::Folder{};
    std::ofstream(folder.path() + "/lines")
        << "cd " << folder.path() << "\nln -s " << command
        << "rankmesh\nPATH=$PWD:$PATH\neval \"$(rankmesh completion bash)\"\n"
        << lines;
    return support::run(clean + "bash --norc " + folder.path() + "/lines").output;
}

TEST(Completion, WorksInBash) {
    if (support::run("bash --version >/dev/null").exit_code != 0) GTEST_SKIP() << "no bash";
    const auto type = std::string(
        "type() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _rankmesh; echo "
        "\"${COMPREPLY[*]}\"; }\n");
    EXPECT_EQ(in_bash(type + "type rankmesh sh"), "show\n");
    EXPECT_EQ(in_bash(type + "type rankmesh show \"'dp=2 tp=2'\" --color ''"), "auto always never\n");
    EXPECT_EQ(in_bash(type + "type rankmesh show dp=2 --color = al"), "always\n");
    EXPECT_EQ(in_bash("complete -p rankmesh"), "complete -o default -F _rankmesh rankmesh\n");
}

TEST(Completion, ScriptsAreRightInTheirShells) {
    for (const auto* shell : {"bash", "zsh", "fish"}) {
        if (support::run(std::string("command -v ") + shell + " >/dev/null").exit_code != 0) continue;
        const auto checked = support::run(clean + command + "completion " + shell + " | " + shell + " -n");
        EXPECT_EQ(checked.output, "") << shell;
        EXPECT_EQ(checked.exit_code, 0) << shell;
    }
}

}  // namespace
}  // namespace rankmesh::tests
