// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <utility>

#include "convert/shell_words.hpp"
#include "formats/limits.hpp"

namespace rankmesh::conversion {

std::size_t end_of_part(std::string_view text, std::size_t at, int levels) {
    if (levels > formats::most_levels)
        formats::Limits("the script").refuse(cat("nests more than ", formats::most_levels, " levels deep"));
    const auto c = text[at];
    if (c == '\\') return std::min(at + 2, text.size());
    if (c == '\'' || c == '`') return std::min(text.find(c, at + 1), text.size() - 1) + 1;
    const auto opens = c == '$' && at + 1 < text.size() && (text[at + 1] == '(' || text[at + 1] == '{');
    if (c != '"' && c != '(' && !opens) return at + 1;
    const auto close = c == '"' ? '"' : c == '(' || text[at + 1] == '(' ? ')' : '}';
    const auto is_comment = [&](std::size_t i) {
        return close == ')' && c == '(' && text[i] == '#' &&
               (is_shell_blank(text[i - 1]) || text[i - 1] == '\n' || i == at + 1);
    };
    for (auto i = at + (c == '$' ? 2U : 1U); i < text.size();) {
        if (text[i] == close) return i + 1;
        if (is_comment(i))
            i = std::min(text.find('\n', i), text.size());
        else if (close == '"' && text[i] == '\'')
            ++i;
        else
            i = end_of_part(text, i, levels + 1);
    }
    return text.size();
}

namespace {

/// Splits a script into simple commands.
class Splitter {
public:
    explicit Splitter(std::string_view text) : text_(text) {}

    std::vector<ShellCommand> commands() {
        while (at_ < text_.size()) step();
        end_command();
        return std::move(commands_);
    }

private:
    void step() {
        const auto c = text_[at_];
        const auto two = text_.substr(at_, 2);
        if (two == "\\\n" || text_.substr(at_, 3) == "\\\r\n") {
            at_ += two == "\\\n" ? 2U : 3U;
        } else if (c == '#' && word_.empty()) {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else if (c == '\n') {
            end_command();
            ++at_;
            read_documents();
        } else if (is_shell_blank(c)) {
            end_word();
            ++at_;
        } else if (is_in_test()) {
            take_part();
        } else if (in_pattern_ && (c == '(' || c == '|')) {
            end_word();
            ++at_;
        } else if (in_pattern_ && c == ')') {
            current_.is_pattern = true;
            in_pattern_ = false;
            end_command();
            ++at_;
        } else if (two == "&&" || two == "||") {
            end_command();
            current_.joint = c;
            at_ += 2;
        } else if (c == '<' || c == '>' || two == "&>") {
            redirect();
        } else if (two == ";;") {
            end_command();
            commands_.push_back({{";;"}, line_});
            in_pattern_ = true;
            at_ += 2;
        } else if (c == '(' && word_.empty() && two == "((") {
            take_part();
        } else if (c == '(' && begins_function()) {
            end_word();
            current_.words.insert(current_.words.end() - 1, "function");
            end_command();
            at_ = text_.find(')', at_) + 1;
        } else if (c == ';' || c == '|' || c == '&' || c == ')' || (c == '(' && !word_.ends_with('='))) {
            end_command();
            ++at_;
        } else {
            take_part();
        }
    }

    void take_part() {
        const auto end = end_of_part(text_, at_);
        word_ += text_.substr(at_, end - at_);
        at_ = end;
    }

    /// True inside of `[[ ... ]]`, where `&&` and `<` are words.
    bool is_in_test() const {
        return std::ranges::find(current_.words, "[[") != current_.words.end() &&
               current_.words.back() != "]]" && word_ != "]]";
    }

    bool begins_function() const {
        const auto close = text_.find_first_not_of(" \t", at_ + 1);
        return close != text_.npos && text_[close] == ')' && word_.empty() != current_.words.empty() &&
               !word_.ends_with('=');
    }

    /// Skips `2>&1`, `> FILE` and `<<WORD` with its text.
    void redirect() {
        if (std::ranges::all_of(word_, [](unsigned char c) { return std::isdigit(c) != 0; })) word_.clear();
        end_word();
        const auto is_document = text_.substr(at_, 2) == "<<" && text_.substr(at_, 3) != "<<<";
        at_ = std::min(text_.find_first_not_of("<>&|-", at_), text_.size());
        at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size());
        const auto begin = at_;
        while (at_ < text_.size() &&
               std::string_view(" \t\r\n;|&<>").find(text_[at_]) == std::string_view::npos)
            at_ = end_of_part(text_, at_);
        if (is_document && !(commands_.empty() && current_.words.empty()))
            documents_.emplace_back(text_.substr(begin, at_ - begin));
    }

    /// Reads the here-documents of the line before, for the last of its commands.
    void read_documents() {
        for (auto& end : std::exchange(documents_, {})) {
            auto& command = commands_.back();
            command.is_literal =
                std::erase_if(end, [](char c) { return c == '"' || c == '\'' || c == '\\'; }) > 0;
            command.document.clear();
            while (at_ < text_.size()) {
                const auto stop = std::min(text_.find('\n', at_), text_.size());
                auto line = text_.substr(at_, stop - at_);
                line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
                at_ = std::min(stop + 1, text_.size());
                if (line == end) break;
                command.document += line;
                command.document += '\n';
            }
        }
    }

    void end_word() {
        if (word_.empty()) return;
        if (current_.words.empty()) {
            const auto begin = at_ - std::min(word_.size(), at_ - counted_);
            line_ += static_cast<int>(std::ranges::count(text_.substr(counted_, begin - counted_), '\n'));
            counted_ = begin;
            current_.line = line_;
        }
        current_.words.push_back(std::exchange(word_, {}));
        const auto& words = current_.words;
        if (words.size() < 3 || words.back() != "in" || words.end()[-3] != "case") return;
        in_pattern_ = true;
        end_command();
    }

    void end_command() {
        end_word();
        if (current_.words.empty()) return;
        if (current_.words.front() == "esac") in_pattern_ = false;
        commands_.push_back(std::exchange(current_, {}));
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t counted_ = 0;  // where `line_` is the line
    int line_ = 1;
    std::string word_;
    ShellCommand current_;
    bool in_pattern_ = false;  // where a branch of `case` begins
    std::vector<ShellCommand> commands_;
    std::vector<std::string> documents_;  // ends of the here-documents that begin on this line
};

}  // namespace

std::vector<ShellCommand> shell_commands(std::string_view text) { return Splitter(text).commands(); }

}  // namespace rankmesh::conversion
