// SPDX-License-Identifier: Apache-2.0
// Reads a shell script up to the commands that start jobs. Nothing of it is run.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <rankmesh/core/name.hpp>

#include "convert/command_line.hpp"
#include "convert/shell_words.hpp"
#include "formats/file.hpp"
#include "formats/limits.hpp"
#include "formats/text.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

using frameworks::holds;

namespace of_script {

using Words = ShellVariables::Words;
using Commands = std::vector<ShellCommand>;

/// Commands that declare variables, that set those that they name, and that start their here-document.
constexpr auto declaring = "export local readonly declare typeset";
constexpr auto setting = "read mapfile readarray getopts let";
constexpr auto shells = "bash sh sbatch srun ssh";

/// The text that a shell reads once more: behind `eval` and `bash -c`; "" for other commands.
static std::string read_again(const Words& words) {
    auto text = std::string{};
    if (!words.empty() && words.front() == "eval")
        for (auto word = words.begin() + 1; word != words.end(); ++word) text += *word + " ";
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
        if (!is_one_of(std::string_view(words[i]).substr(words[i].find_last_of('/') + 1), "bash sh"))
            continue;
        for (auto j = i + 1; j + 1 < words.size(); ++j)
            if (words[j].starts_with('-') && words[j].ends_with('c'))
                return words[j + 1];
            else if (!words[j].starts_with('-') && !words[j - 1].ends_with('o'))  // -o pipefail
                break;
    }
    return text;
}

/// Variables that Slurm sets, and the flags of sbatch that set them.
constexpr auto of_batch = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"SLURM_NNODES SLURM_JOB_NUM_NODES", "--nodes -N"},
    {"SLURM_NTASKS SLURM_NPROCS", "--ntasks -n"},
    {"SLURM_NTASKS_PER_NODE", "--ntasks-per-node"},
    {"SLURM_GPUS_PER_NODE SLURM_GPUS_ON_NODE", "--gpus-per-node"},
});

/// Goes through a script, with the variables that are certain.
class Reader {
public:
    Reader(std::string_view source, std::string_view path, std::string_view framework)
        : source_(source), folder_(std::filesystem::path(path).parent_path()), framework_(framework) {}

    void read(std::string_view text) {
        if (++depth_ > 10) formats::Limits(source_).refuse("evaluate a text more than 10 times");
        for (const auto line : formats::split(text, '\n'))
            if (line.starts_with("#SBATCH "))
                for (const auto word : frameworks::words_of(line.substr(0, line.find(" #")).substr(8)))
                    batch_.emplace_back(word);
        for (const auto& [names, flags] : of_batch)
            if (const auto number = number_of(batch_, flags))
                for (const auto name : frameworks::words_of(names))
                    variables_.assign(cat(name, "=", *number), true);
        read(shell_commands(text));
        --depth_;
    }

    std::vector<std::string> launch() && {
        if (launches_.empty())  // what calls them is not known
            for (const auto& [name, body] : std::exchange(functions_, {})) read_within(body, std::nullopt);
        // Beside the job, a script starts clients, and pulls images.
        const auto is_of_others = [&](const Launch& launch) {
            return !is_of_framework(launch.job.program, framework_);
        };
        if (std::ranges::count_if(launches_, is_of_others) + 1 == std::ssize(launches_))
            std::erase_if(launches_, is_of_others);
        if (launches_.empty()) return {};
        if (launches_.size() == 1) return std::move(launches_.front().words);
        auto lines = std::vector<std::string>{};
        for (const auto& launch : launches_) lines.push_back(std::to_string(launch.line));
        throw UsageError(cat(source_, " are a shell script that starts ", launches_.size(),
                             " programs, in lines ", detail::with_commas(lines), "; keep one of them"));
    }

private:
    /// What stands between `if` and `fi`, `do` and `done`, `{` and `}`.
    struct Block {
        std::string keyword;                      ///< that began it
        Truth runs = true;                        ///< what stands there now
        Truth is_done = false;                    ///< a branch before it ran
        std::optional<std::string> subject = {};  ///< of `case`

        /// Begins a branch that runs where no other did.
        void enter(Truth condition) {
            runs = both(negated(is_done), condition);
            is_done = either(is_done, condition);
        }
    };

    void read(Commands commands) {
        for (std::size_t i = 0; i < commands.size() && !is_ended_; ++i)
            if (commands[i].words.front() == "function" && commands[i].words.size() > 1)
                i = define(commands, i);
            else
                read(commands[i]);
    }
    void read_within(const Commands& body, Truth runs) {
        blocks_.push_back({"{", runs});
        const auto size = blocks_.size();
        if (++depth_ > 10) formats::Limits(source_).refuse("call a function more than 10 levels deep");
        read(body);
        --depth_;
        blocks_.resize(size - 1);
        is_ended_ = false;
    }

    /// Keeps the body of a function; returns the place of its last command.
    std::size_t define(Commands& commands, std::size_t at) {
        auto& words = commands[at].words;
        auto& body = functions_[words[1]];
        body.clear();
        words.erase(words.begin(), words.begin() + 2);
        for (auto open = 0; at < commands.size(); ++at) {
            if (commands[at].words.empty()) continue;
            const auto& first = commands[at].words.front();
            open += first == "{" ? 1 : first == "}" ? -1 : 0;
            body.push_back(commands[at]);
            if (open == 0) break;
        }
        return at;
    }

    Truth runs() const {
        auto all = Truth(true);
        for (const auto& block : blocks_) all = both(all, block.runs);
        return all;
    }

    /// Enters and leaves blocks; true for a word that begins no command itself.
    bool takes(std::string_view word) {
        if (is_one_of(word, "if while until {")) {
            blocks_.push_back({std::string(word)});
            return true;
        }
        if (!is_one_of(word, "then else elif do fi done esac }")) return word == "time";
        if (blocks_.empty()) return true;
        auto& block = blocks_.back();
        if (word == "then")
            block.enter(status_);
        else if (word == "else")
            block.enter(true);
        else if (word == "elif")
            block.runs = negated(block.is_done);
        else if (word != "do")
            blocks_.pop_back();
        else if (block.keyword != "for")
            block.runs = block.keyword == "while" && status_ == false ? status_ : std::nullopt;
        return true;
    }

    /// True for loops over what the script itself is given: nothing.
    bool is_over_given(const Words& words) const {
        return words.front() == "getopts" || std::ranges::any_of(words, [&](const auto& word) {
                   return !variables_.given() &&
                          (word.find("$#") != word.npos || word.find("$1") != word.npos ||
                           word.find("${1") != word.npos);
               });
    }

    void read(ShellCommand command) {
        auto& words = command.words;
        if (command.is_pattern || words.front() == ";;") {
            if (blocks_.empty()) return;
            auto is_one = Truth(false);
            for (const auto& pattern : words)
                if (command.is_pattern)
                    is_one = either(is_one, variables_.matches(blocks_.back().subject, pattern));
            blocks_.back().enter(is_one);
            return;
        }
        auto is_negated = false;
        auto begin = words.begin();
        for (; begin != words.end() && (*begin == "!" || takes(*begin)); ++begin)
            is_negated = is_negated != (*begin == "!");
        words.erase(words.begin(), begin);
        if (words.empty()) return;
        if (words.front() == "for" || words.front() == "select") {
            const auto is_over_nothing = words.size() == 2 || (words.size() == 4 && words[3] == "\"$@\"");
            blocks_.push_back({"for", is_over_nothing && !variables_.given() ? Truth(false) : std::nullopt});
            if (words.size() > 1) variables_.forget(words[1]);
            return;
        }
        if (words.front() == "case") {
            blocks_.push_back(
                {"case", false, false, words.size() > 1 ? variables_.certain(words[1]) : std::nullopt});
            return;
        }
        const auto reached = command.joint == '&'   ? status_
                             : command.joint == '|' ? negated(status_)
                                                    : Truth(true);
        const auto is_run = both(runs(), reached);
        if (is_run == false) return;
        auto result = run(command, is_run == true);
        if (is_negated) result = negated(result);
        status_ = command.joint == '&'   ? both(status_, result)
                  : command.joint == '|' ? either(status_, result)
                                         : result;
    }

    /// Returns the result of a simple command; `known` is false where it may not be run.
    Truth run(const ShellCommand& command, bool known) {
        const auto& words = command.words;
        const auto& first = words.front();
        const auto is_in_condition =
            !blocks_.empty() && blocks_.back().keyword == "while" && blocks_.back().runs == true;
        if (is_in_condition && is_over_given(words)) return false;
        if (is_one_of(first, "[ [[ test") || first.starts_with("((")) {
            const auto truth = variables_.truth(words);
            if (!truth && first[0] == '(')  // which may set it
                variables_.forget(first.substr(2, first.find_first_of(" +-*/=)", 2) - 2));
            return truth;
        }
        if (is_one_of(first, "true : false")) return first != "false";
        if (first == "exit" || first == "return") {  // an error is none of a job that starts
            is_ended_ = known && (words.size() == 1 || words[1] == "0");
            return std::nullopt;
        }
        const auto is_assignment = [](const auto& word) { return ShellVariables().assign(word, false); };
        if (is_one_of(first, declaring) || std::ranges::all_of(words, is_assignment)) {
            for (const auto& word : words) variables_.assign(word, known);
            return true;
        }
        if (is_one_of(first, setting)) {
            for (const auto& word : words) variables_.forget(word.substr(0, word.find('=')));
            return std::nullopt;
        }
        if (first == "set" && words.size() > 1 && words[1] == "--") {
            give(words, 2);
            return true;
        }
        if (first == "source" || first == ".") return read_file(words);
        if (const auto function = functions_.find(first); function != functions_.end()) {
            const auto outer = variables_.given();
            give(words, 1);
            read_within(Commands(function->second), known ? Truth(true) : std::nullopt);
            if (outer) variables_.give(*outer);
            return std::nullopt;
        }
        start(command);
        return std::nullopt;
    }

    /// Gives words of a command from this one on, as `$1` and more.
    void give(const Words& words, std::size_t begin) {
        auto given = Words{};
        for (; begin < words.size(); ++begin)
            std::ranges::move(variables_.expanded(words[begin], true, source_), std::back_inserter(given));
        variables_.give(std::move(given));
    }

    /// Reads the file that `source` names, if it is beside the script or below it.
    Truth read_file(const Words& words) {
        const auto name = words.size() > 1 ? variables_.certain(words[1]) : std::nullopt;
        auto error = std::error_code{};
        const auto path = folder_ / std::filesystem::path(name.value_or(""));
        if (name && !folder_.empty() && std::filesystem::is_regular_file(path, error))
            read(formats::content_of(path.string(), cat("the script '", *name, "'")));
        return std::nullopt;
    }

    /// Keeps a command that starts ranks.
    void start(const ShellCommand& command) {
        auto words = Words{};
        auto unknown = Words{};
        auto refused = std::optional<UsageError>{};
        for (const auto& word : command.words) {
            try {
                for (auto& one : variables_.expanded(word, is_value_of(words, word), source_)) {
                    const auto is_variable = one.starts_with('$') && one.find_first_of("/.(", 1) == one.npos;
                    if (is_variable && one != word && !is_value_of(words, one)) {  // in a text of flags
                        unknown.push_back(one);
                        if (!refused) refused = unknown_flags(one, source_);
                    }
                    words.push_back(std::move(one));
                }
            } catch (const UsageError& error) {
                if (!refused) refused = error;
                words.push_back(word);
                unknown.push_back(word);
            }
        }
        if (words.empty()) return;
        auto text = read_again(words);
        if (text.empty() && !command.document.empty() && is_one_of(words.front(), shells))
            text = command.is_literal ? command.document : variables_.document(command.document);
        if (!text.empty()) return read(text);
        if (words.front().starts_with("--") && !launches_.empty())
            throw UsageError(cat(source_, " have the command ", detail::in_quotes(words.front()), " in line ",
                                 command.line, "; write a \\ at the end of the line before it"));
        if (!is_command(words)) return;
        if (words.front() == "srun") words.insert(words.begin() + 1, batch_.begin(), batch_.end());
        auto command_line = taken_apart(words);
        if (command_line.program.empty()) return;
        // A launcher may be given anything: docker's ${TOKEN:+-e TOKEN}.
        const auto is_setting = [&](const auto& word) {
            return start_of(framework_).has_settings ||
                   std::ranges::find(words, word) > std::ranges::find(words, command_line.program);
        };
        if (refused && std::ranges::any_of(unknown, is_setting)) throw *refused;
        auto job = without_host(std::move(command_line));
        if (std::ranges::find(launches_, job, &Launch::job) == launches_.end())
            launches_.push_back({command.line, std::move(job), std::move(words)});
    }

    std::string_view source_;
    std::filesystem::path folder_;
    std::string_view framework_;
    std::vector<std::string> batch_;  // the flags of its lines `#SBATCH`
    ShellVariables variables_;
    std::map<std::string, Commands, std::less<>> functions_;
    std::vector<Block> blocks_;
    Truth status_ = true;    // of the last command
    bool is_ended_ = false;  // by `exit` or `return`
    int depth_ = 0;
    struct Launch {
        int line;
        CommandLine job;
        std::vector<std::string> words;
    };
    std::vector<Launch> launches_;
};

}  // namespace of_script

std::vector<std::string> launch_of(std::string_view text, std::string_view source, std::string_view path,
                                   std::string_view framework) {
    auto reader = of_script::Reader(source, path, framework);
    reader.read(text);
    return std::move(reader).launch();
}

}  // namespace rankmesh::conversion
