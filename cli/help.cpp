// SPDX-License-Identifier: Apache-2.0
// The help and the man pages, from the table of subcommands.
#include "help.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

#include "formats/text.hpp"
#include "output.hpp"

namespace rankmesh::cli {

namespace of_help {

constexpr auto headings = std::array<std::pair<Group, std::string_view>, 4>{{
    {Group::look, "Look at a mesh"},
    {Group::plan, "Plan a job"},
    {Group::run, "Run a job"},
    {Group::command, "About this command"},
}};

constexpr auto man_width = 72;  // man indents the text by 7 of 80 columns

constexpr auto closing = std::string_view(
    "A mesh lists its axes outermost first. To see the options of a subcommand, run rankmesh help "
    "SUBCOMMAND.");
constexpr auto statuses = std::string_view(
    "0: success, or the answer is yes. 1: the answer is no, or the system failed. 2: the command line or a "
    "file is wrong.");

std::string name_of(const Option& option) {
    return option.type.empty() ? option.name : option.name + " " + option.type;
}

std::string help_of(const Option& option) {
    if (!option.range || !option.range->shown) return option.help;
    return fmt::format("{}; range: {} to {}", option.help, option.range->least, option.range->most);
}

/// Returns the options of a subcommand, or its positional arguments.
std::vector<Entry> entries_of(const Subcommand& subcommand, bool has_dashes) {
    auto entries = std::vector<Entry>{};
    for (const auto& option : subcommand.options)
        if (option.has_dashes() == has_dashes) entries.push_back({name_of(option), help_of(option)});
    if (has_dashes) entries.push_back(help_flag);
    return entries;
}

/// `MESH [B] [OPTIONS]`.
std::string usage_of(const Subcommand& subcommand) {
    auto words = std::string{};
    for (const auto& option : subcommand.options) {
        if (option.has_dashes()) continue;
        const auto name = option.name + (option.is_list() ? "..." : "");
        words += option.name == subcommand.optional_positional ? "[" + name + "] " : name + " ";
    }
    return words + "[OPTIONS]";
}

/// Returns a text that begins in column `indent` and continues there.
std::string hung(std::string_view text, std::size_t indent, std::size_t width) {
    auto out = std::string{};
    const auto all = folded(text, 0, std::max(width, indent + 20) - indent);
    for (const auto line : formats::split(all, '\n'))
        out.append(out.empty() ? "" : "\n" + std::string(indent, ' ')).append(line);
    return out;
}

/// Returns names in one column and their meanings in another.
std::string table_of(std::string_view heading, const std::vector<Entry>& entries, std::size_t width) {
    if (entries.empty()) return {};
    constexpr auto most = std::size_t{22};  // longer names get their own line
    auto column = std::size_t{0};
    for (const auto& entry : entries) column = std::max(column, std::min(most, entry.name.size()));
    auto text = fmt::format("\n{}:\n", heading);
    const auto indent = std::string(column + 4, ' ');
    for (const auto& [name, help] : entries) {
        text += "  " + name;
        text += name.size() > column ? "\n" + indent : indent.substr(name.size() + 2);
        text += hung(help, indent.size(), width) + "\n";
    }
    return text;
}

/// Returns a row of a table in the notes, with its second column wrapped. Other rows are unchanged.
std::string row_of(std::string_view line, std::size_t width) {
    const auto name = line.find_first_not_of(' ');
    const auto gap = line.find("  ", name);
    const auto text = line.find_first_not_of(' ', gap);
    if (gap == std::string::npos || text == std::string::npos) return std::string(line);
    return std::string(line.substr(0, text)) + hung(line.substr(text), text, width);
}

std::string notes_of(const std::string& notes, std::size_t width) {
    auto text = std::string{};
    auto kept = true;
    if (notes.empty()) return text;
    for (const auto line : formats::split(notes, '\n')) {
        if (kept && !line.starts_with(' ')) text += "\n";
        kept = line.starts_with(' ');
        text += (kept ? row_of(line, width) : folded(line, 0, width)) + "\n";
    }
    return text;
}

std::string examples_of(const std::vector<std::string>& examples) {
    if (examples.empty()) return {};
    auto text = std::string(examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n");
    for (const auto& example : examples) text += "  " + example + "\n";
    return text;
}

/// Escapes text for troff.
std::string troff(std::string_view text) {
    auto out = std::string{};
    for (const auto c : text) {
        if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
        if (c == '-')
            out += "\\-";
        else if (c == '\\')
            out += "\\e";
        else
            out += c;
    }
    return out;
}

/// Returns a man page that shows the help as it is.
std::string man_page_of(std::string_view name, std::string_view summary, std::string_view help,
                        const std::vector<std::string>& others) {
    auto upper = std::string(name);
    std::ranges::transform(upper, upper.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    auto text = fmt::format(
        ".TH {} 1 \"\" \"rankmesh {}\" \"rankmesh\"\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n.nf\n{}.fi\n"
        ".SH EXIT STATUS\n{}\n.SH SEE ALSO\n",
        troff(upper), RANKMESH_VERSION, troff(name), troff(summary), troff(help), troff(statuses));
    for (const auto& other : others) text += fmt::format(".BR {} (1)\n", troff(other));
    return text;
}

struct Arguments {
    std::optional<std::string> subcommand;
    std::string man;
};

int run(const Arguments& arguments, Output& output) {
    const auto all = subcommands();
    const auto* one = arguments.subcommand ? &find_subcommand(all, *arguments.subcommand) : nullptr;
    if (arguments.man.empty()) {
        output.write(one ? help_text(*one, terminal_width()) : help_text(all, terminal_width()));
        return 0;
    }
    const auto folder = std::filesystem::path(arguments.man);
    if (!one) write_file(folder / "rankmesh.1", man_page(all));
    for (const auto& each : all)
        if (!one || one == &each) write_file(folder / ("rankmesh-" + each.name + ".1"), man_page(each));
    return 0;
}

}  // namespace of_help

const Subcommand& find_subcommand(const std::vector<Subcommand>& all, std::string_view name) {
    const auto found = std::ranges::find(all, name, &Subcommand::name);
    if (found != all.end()) return *found;
    const auto names = names_of(all);
    throw UsageError(fmt::format("unknown subcommand {}; one of: {}{}", detail::in_quotes(name),
                                 joined(names, ", "), did_you_mean(name, {names.begin(), names.end()})));
}

std::string help_text(const std::vector<Subcommand>& all, int width) {
    using namespace of_help;
    const auto columns = static_cast<std::size_t>(width);
    auto text = fmt::format("Usage: rankmesh SUBCOMMAND ...\n\n{}\n", folded(summary, 0, columns));
    auto column = std::size_t{0};
    for (const auto& each : all) column = std::max(column, each.name.size());
    const auto indent = std::string(column + 4, ' ');
    for (const auto& [group, heading] : headings) {
        text += fmt::format("\n{}:\n", heading);
        for (const auto& each : all) {
            if (each.group != group) continue;
            text += fmt::format("  {:<{}}  {}\n", each.name, column, hung(each.help, indent.size(), columns));
            if (!each.examples.empty()) text += indent + each.examples.front() + "\n";
        }
    }
    return text + table_of("Options", {version_flag, help_flag}, columns) + "\n" +
           folded(closing, 0, columns) + "\n";
}

std::string help_text(const Subcommand& subcommand, int width) {
    using namespace of_help;
    const auto columns = static_cast<std::size_t>(width);
    return fmt::format("Usage: rankmesh {} {}\n\n{}\n", subcommand.name, usage_of(subcommand),
                       folded(subcommand.help, 0, columns)) +
           table_of("Arguments", entries_of(subcommand, false), columns) +
           table_of("Options", entries_of(subcommand, true), columns) + notes_of(subcommand.notes, columns) +
           examples_of(subcommand.examples);
}

std::string man_page(const std::vector<Subcommand>& all) {
    auto names = std::vector<std::string>{};
    for (const auto& each : all) names.push_back("rankmesh-" + each.name);
    return of_help::man_page_of("rankmesh", summary, help_text(all, of_help::man_width), names);
}

std::string man_page(const Subcommand& subcommand) {
    return of_help::man_page_of("rankmesh-" + subcommand.name, subcommand.help,
                                help_text(subcommand, of_help::man_width), {"rankmesh"});
}

Subcommand help() {
    const auto arguments = std::make_shared<of_help::Arguments>();
    return {
        .name = "help",
        .help = "Print the help of a subcommand, or write man pages.",
        .options = {{"SUBCOMMAND", "the subcommand to describe; default: list all", &arguments->subcommand},
                    {"--man", "write man pages into DIR instead: of SUBCOMMAND, or of all", &arguments->man,
                     "DIR"}},
        .run = [arguments](Output& output) { return of_help::run(*arguments, output); },
        .group = Group::command,
        .examples = {"rankmesh help plan", "rankmesh help --man ~/.local/share/man/man1"},
        .optional_positional = "SUBCOMMAND"};
}

}  // namespace rankmesh::cli
