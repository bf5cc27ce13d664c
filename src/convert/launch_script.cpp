// SPDX-License-Identifier: Apache-2.0
#include "convert/launch_script.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

#include "convert/command_line.hpp"
#include "convert/shell_words.hpp"
#include "formats/limits.hpp"
#include "formats/text.hpp"

namespace rankmesh::conversion {

using detail::cat;

namespace {

constexpr auto opening =
    std::to_array<std::string_view>({"if", "for", "while", "until", "case", "select", "{"});
constexpr auto closing = std::to_array<std::string_view>({"fi", "done", "esac", "}"});
constexpr auto between = std::to_array<std::string_view>({"then", "else", "elif", "do", "!"});
constexpr auto declaring =
    std::to_array<std::string_view>({"export", "local", "readonly", "declare", "typeset"});

bool is_in(std::string_view word, const auto& words) { return std::ranges::find(words, word) != words.end(); }

/// The text that a shell reads once more: behind `eval` and `bash -c`; "" for other commands.
std::string read_again(const std::vector<std::string>& words) {
    auto text = std::string{};
    if (!words.empty() && words.front() == "eval")
        for (auto word = words.begin() + 1; word != words.end(); ++word) text += *word + " ";
    for (std::size_t i = 0; i + 2 < words.size(); ++i)
        if ((words[i] == "bash" || words[i] == "sh") && words[i + 1].starts_with('-') &&
            words[i + 1].ends_with('c'))
            text = words[i + 2];
    return text;
}

/// Runs through a script, with the variables that are certain.
class Reader {
public:
    explicit Reader(std::string_view source) : source_(source) {}

    void read(ShellCommand command) {
        auto words = command.words.begin();
        for (; words != command.words.end(); ++words) {
            if (is_in(*words, opening)) {
                ++depth_;
                if (*words == "for" && words + 1 != command.words.end()) {
                    variables_.forget(words[1]);
                    return;
                }
            } else if (is_in(*words, closing)) {
                depth_ = std::max(depth_ - 1, 0);
            } else if (!is_in(*words, between)) {
                break;
            }
        }
        command.words.erase(command.words.begin(), words);
        const auto declares = !command.words.empty() && is_in(command.words.front(), declaring);
        const auto is_assignment = [&](const std::string& word) {
            auto scratch = ShellVariables();
            return scratch.assign(word, false);
        };
        if (declares || std::ranges::all_of(command.words, is_assignment)) {
            for (const auto& word : command.words)
                variables_.assign(word, depth_ == 0 && !command.conditional);
            return;
        }
        start(command);
    }

    std::vector<std::string> launch() && {
        if (launches_.size() == 1) return std::move(launches_.front().second);
        if (launches_.empty())
            throw UsageError(cat(source_,
                                 " are a shell script that starts no program that is known, such as "
                                 "torchrun FILE.py; write the program's flags after --"));
        auto lines = std::vector<std::string>{};
        for (const auto& [line, words] : launches_) lines.push_back(std::to_string(line));
        throw UsageError(cat(source_, " are a shell script that starts ", launches_.size(),
                             " programs, in lines ", detail::with_commas(lines), "; keep one of them"));
    }

private:
    /// Keeps a command that starts ranks.
    void start(const ShellCommand& command, int again = 0) {
        if (again > 10) formats::Limits(source_).refuse("evaluate a text more than 10 times");
        auto words = std::vector<std::string>{};
        auto refused = std::optional<UsageError>{};
        for (const auto& word : command.words) {
            const auto is_value = !words.empty() && words.back().starts_with("--") &&
                                  words.back().find('=') == std::string::npos;
            try {
                std::ranges::move(variables_.expanded(word, is_value, source_), std::back_inserter(words));
            } catch (const UsageError& error) {
                if (!refused) refused = error;
            }
        }
        const auto text = read_again(words);
        if (!text.empty()) {
            for (auto& each : shell_commands(text))
                start({std::move(each.words), command.line, false}, again + 1);
            return;
        }
        if (!is_command(words)) return;
        if (refused) throw *refused;
        if (std::ranges::none_of(launches_, [&](const auto& other) { return other.second == words; }))
            launches_.emplace_back(command.line, std::move(words));
    }

    std::string_view source_;
    ShellVariables variables_;
    int depth_ = 0;
    std::vector<std::pair<int, std::vector<std::string>>> launches_;
};

}  // namespace

bool is_script(std::string_view text) {
    if (text.starts_with("#!")) return true;
    for (auto rest = text; !rest.empty();) {
        const auto line = rest.substr(0, rest.find('\n'));
        if (line.starts_with("export ") || line.find("=$") != line.npos) return true;
        if (const auto at = line.find("=("); at != line.npos && at > 0) {
            const auto behind = formats::trimmed(rest.substr(at + 2));
            if (behind.starts_with("--") || behind.starts_with('$')) return true;
        }
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
    return false;
}

std::vector<std::string> launch_of(std::string_view text, std::string_view source) {
    auto reader = Reader(source);
    for (auto& command : shell_commands(text)) reader.read(std::move(command));
    return std::move(reader).launch();
}

}  // namespace rankmesh::conversion
