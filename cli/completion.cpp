// SPDX-License-Identifier: Apache-2.0
// Shell completion, from the table of subcommands. The script of each shell calls the command itself.
#include <algorithm>
#include <array>
#include <memory>

#include "help.hpp"
#include "output.hpp"
#include "subcommand.hpp"

namespace rankmesh::cli {

namespace of_completion {

struct Shell {
    std::string_view name;
    std::string_view script;
    std::string_view load;  ///< a line for the shell's startup file
};

// If no candidate matches, shells complete files.
constexpr auto shells = std::array<Shell, 3>{{
    {"bash", R"script(# Completion of rankmesh in bash.
_rankmesh() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _rankmesh rankmesh
)script",
     "eval \"$(rankmesh completion bash)\""},
    {"zsh", R"script(#compdef rankmesh
# Completion of rankmesh in zsh.
_rankmesh() {
    local -a found
    found=(${(f)"$(${(Q)words[1]} completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then
        _describe rankmesh found
    else
        _files
    fi
}
if [[ $funcstack[1] == _rankmesh ]]; then
    _rankmesh "$@"
else
    compdef _rankmesh rankmesh
fi
)script",
     "source <(rankmesh completion zsh)"},
    {"fish", R"script(# Completion of rankmesh in fish.
function __rankmesh_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($words[1] completion fish -- $words[2..] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c rankmesh -f -a '(__rankmesh_complete)'
)script",
     "rankmesh completion fish | source"},
}};

struct Arguments {
    std::string shell;
    std::vector<std::string> words;
};

std::vector<Entry> names_of(const std::vector<Subcommand>& all) {
    auto names = std::vector<Entry>{};
    for (const auto& each : all) names.push_back({each.name, each.help});
    return names;
}

std::vector<Entry> values_of(const Option& option, const std::vector<Subcommand>& all) {
    if (option.name == "SUBCOMMAND") return names_of(all);
    auto values = std::vector<Entry>{};
    for (const auto& value : option.values) values.push_back({value});
    return values;
}

/// Returns the candidates for `word` after the words `before` of a subcommand.
std::vector<Entry> candidates(const Subcommand& subcommand, const std::vector<Subcommand>& all,
                              const std::vector<std::string>& before, const std::string& word) {
    const auto find = [&](std::string_view name) {
        return std::ranges::find_if(subcommand.options, [&](const Option& option) {
            return option.has_dashes() && option.name == name;
        });
    };
    const auto end = subcommand.options.end();
    auto place = std::size_t{0};  // index of the next positional argument
    auto waits = end;             // the option that waits for its value
    auto ended = false;           // true after --
    for (const auto& one : before) {
        if (waits != end) {
            if (one != "=") waits = end;  // bash separates `--on=` into two words
        } else if (one == "--") {
            ended = true;
        } else if (ended || !one.starts_with('-')) {
            ++place;
        } else if (const auto option = find(one); option != end && !option->is_flag()) {
            waits = option;
        }
    }
    if (waits != end) return values_of(*waits, all);
    if (const auto equals = word.find('='); !ended && word.starts_with("--") && equals != word.npos) {
        const auto option = find(std::string_view(word).substr(0, equals));
        if (option == end) return {};
        auto values = values_of(*option, all);
        for (auto& value : values) value.name = word.substr(0, equals + 1) + value.name;
        return values;
    }
    if (!ended && word.starts_with('-')) {
        auto names = std::vector<Entry>{};
        for (const auto& option : subcommand.options)
            if (option.has_dashes()) names.push_back({option.name, option.help});
        names.push_back(help_flag);
        return names;
    }
    for (const auto& option : subcommand.options)
        if (!option.has_dashes() && (option.is_list() || place-- == 0)) return values_of(option, all);
    return {};
}

/// Returns the candidates for the last of these words, which follow `rankmesh`.
std::vector<Entry> candidates(const std::vector<Subcommand>& all, std::vector<std::string> words) {
    auto word = words.back();
    words.pop_back();
    if (word == "=") word.clear();  // bash passes `--on=` without a value like this
    auto found = std::vector<Entry>{};
    if (!words.empty()) {
        const auto subcommand = std::ranges::find(all, words.front(), &Subcommand::name);
        if (subcommand != all.end())
            found = candidates(*subcommand, all, {words.begin() + 1, words.end()}, word);
    } else if (word.starts_with('-')) {
        found = {help_flag, version_flag};
    } else {
        found = names_of(all);
    }
    std::erase_if(found, [&](const Entry& one) { return !one.name.starts_with(word); });
    return found;
}

/// Returns a candidate in the format of a shell.
std::string line_of(const Entry& one, std::string_view shell) {
    if (shell == "bash") return one.name;
    if (shell == "fish") return one.help.empty() ? one.name : one.name + "\t" + one.help;
    auto word = std::string{};  // zsh reads a colon as the end of the word
    for (const auto c : one.name) word += c == ':' ? "\\:" : std::string(1, c);
    return one.help.empty() ? word : word + ":" + one.help;
}

int run(const Arguments& arguments, Output& output) {
    const auto* shell = std::ranges::find(shells, arguments.shell, &Shell::name);
    if (arguments.words.empty()) {
        output.write(shell->script);
        return 0;
    }
    for (const auto& one : candidates(subcommands(), arguments.words))
        output.print("{}\n", line_of(one, shell->name));
    return 0;
}

Subcommand described(const std::shared_ptr<Arguments>& arguments) {
    auto lines = std::vector<std::string>{};
    for (const auto& shell : shells) lines.emplace_back(shell.load);
    return {.name = "completion",
            .help = "Print a shell script that completes the words of rankmesh commands.",
            .options = {one_of(cli::names_of(shells), {"SHELL", "bash, zsh or fish", &arguments->shell}),
                        {"WORDS", "after --: words of a command, to complete the last; the scripts pass them",
                         &arguments->words}},
            .run = [arguments](Output& output) { return run(*arguments, output); },
            .group = Group::command,
            .examples = lines,
            .notes =
                "Add the example for your shell to ~/.bashrc, ~/.zshrc (after compinit) or "
                "~/.config/fish/config.fish. cmake --install also installs the scripts where shells look for "
                "them.",
            .optional_positional = "WORDS"};
}

}  // namespace of_completion

Subcommand completion() { return of_completion::described(std::make_shared<of_completion::Arguments>()); }

}  // namespace rankmesh::cli
