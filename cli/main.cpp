// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <iostream>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/engine/built.hpp>

#include <CLI/CLI.hpp>

#include "output.hpp"
#include "subcommand.hpp"

namespace rankmesh::cli {

namespace {

constexpr auto yes = 0;
constexpr auto no = 1;
constexpr auto usage_error = 2;

/// `Usage: rankmesh rank MESH R [OPTIONS]`: every positional argument is required.
class Help : public CLI::Formatter {
public:
    std::string make_usage(const CLI::App* app, std::string name) const override {
        auto usage = app->get_parent() ? "Usage: " + name : "Usage: rankmesh SUBCOMMAND";
        for (const auto* option : app->get_options())
            if (option->get_positional()) usage += " " + option->get_name(true);
        return usage + (app->get_parent() ? " [OPTIONS]\n" : " ...\n");
    }
};

/// A subcommand, and what it is for CLI11.
struct Known {
    Subcommand subcommand;
    CLI::App* app = nullptr;
};

CLI::Option* added(CLI::App& app, const Option& option, auto& target) {
    return app.add_option(option.name, target, option.help);
}
CLI::Option* added(CLI::App& app, const Option& option, bool& target) {
    return app.add_flag(option.name, target, option.help);
}
CLI::Option* added(CLI::App& app, const Option& option, std::vector<std::string>& target) {
    // A positional argument takes all remaining words, an option one each time it is given.
    return app.add_option(option.name, target, option.help)->allow_extra_args(!option.name.starts_with('-'));
}

template <class Number>
CLI::Validator range_of(const Option::Range& range) {
    auto check =
        CLI::Validator(CLI::Range(static_cast<Number>(range.least), static_cast<Number>(range.most)));
    return range.shown ? check : check.description("");
}
CLI::Validator range_of(const Option::Range& range, std::optional<int>*) { return range_of<int>(range); }
CLI::Validator range_of(const Option::Range& range, std::size_t*) { return range_of<std::size_t>(range); }
CLI::Validator range_of(const Option::Range& range, double*) { return range_of<double>(range); }
CLI::Validator range_of(const Option::Range&, const void*) {
    throw std::logic_error("only numbers have a range");
}

void add(CLI::App& app, const Option& option) {
    std::visit(
        [&](auto* target) {
            auto* one = added(app, option, *target);
            if (option.range) one->check(range_of(*option.range, target));
            if (!option.type.empty()) one->type_name(option.type);
        },
        option.target);
}

std::string version_text() {
    auto engines = std::vector<std::string>{};
    for (const auto& [name, library] : built_engines())
        engines.push_back(library.empty() ? name : fmt::format("{} ({})", name, library));
    return fmt::format("rankmesh {}\nengines: {}", RANKMESH_VERSION, joined(engines, ", "));
}

/// True for an option; not for `--`, after which no options follow.
bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

/// Throws UsageError unless the first word is a subcommand or an option.
void check_subcommand(const std::vector<Known>& subcommands, int argc, char** argv) {
    auto names = std::vector<std::string>{};
    for (const auto& known : subcommands) names.push_back(known.subcommand.name);
    if (argc < 2)
        throw UsageError(
            fmt::format("missing subcommand; one of: {}; see rankmesh --help", joined(names, ", ")));
    const auto word = std::string_view(argv[1]);
    if (is_option(word) || std::ranges::find(names, word) != names.end()) return;
    throw UsageError(fmt::format("unknown subcommand {}; one of: {}{}", detail::in_quotes(word),
                                 joined(names, ", "), did_you_mean(word, {names.begin(), names.end()})));
}

/// Throws UsageError for options and arguments that the subcommand does not have, or that are missing.
void check_words(const CLI::App& app, const std::vector<std::string>& unknown,
                 const Subcommand& subcommand = {}) {
    const auto is_command = app.get_parent() == nullptr;
    const auto full_name = is_command ? app.get_name() : "rankmesh " + app.get_name();
    for (const auto& word : unknown)
        if (is_option(word)) {
            auto names = std::vector<std::string>{};
            for (const auto* option : app.get_options())
                for (const auto& name : option->get_lnames()) names.push_back("--" + name);
            const auto asked = word.substr(0, word.find('='));
            const auto near = did_you_mean(asked, {names.begin(), names.end()});
            throw UsageError(fmt::format("unknown option {}{}", detail::in_quotes(asked),
                                         !near.empty() ? near
                                         : !subcommand.unknown_option_hint.empty()
                                             ? subcommand.unknown_option_hint
                                             : fmt::format("; see {} --help", full_name)));
        }
    for (const auto& word : unknown)
        if (word != "--")
            throw UsageError(fmt::format("unexpected argument {}; {}", detail::in_quotes(word),
                                         word.find('=') != std::string::npos
                                             ? "a mesh is one argument in quotes, such as 'pp=4 dp=8'"
                                             : fmt::format("see {} --help", full_name)));
    for (const auto* option : app.get_options())
        if (option->get_positional() && option->count() == 0 &&
            option->get_name(true) != subcommand.optional_positional)
            throw UsageError(fmt::format("missing argument {}: {}; see {} --help", option->get_name(true),
                                         option->get_description(), full_name));
}

int run(int argc, char** argv, Output& output) {
    auto command =
        CLI::App("The process topology of a large parallel job: draw it, ask it, run it.", "rankmesh");
    command.formatter(std::make_shared<Help>());
    command.set_version_flag("--version", version_text, "print the version, and the engines of this build");
    command.set_help_flag("-h,--help", "print this");
    command.allow_extras();
    command.footer(
        "Examples:\n"
        "  rankmesh show   'pp=4 dp=8 tp=8' --on 'node:32 gpu:8'\n"
        "  rankmesh draw   'pp=4 dp=8 tp=8' --on 'node:32 gpu:8' --out mesh.html\n"
        "  rankmesh rank   'pp=4 dp=8 tp=8' 67\n"
        "  rankmesh groups 'pp=4 dp=8 tp=8' dp,tp\n"
        "  rankmesh check  'pp=4 dp=8 tp=8' --over dp,tp\n"
        "  rankmesh convert --from picotron --to olmo tp_size=2 dp_size=4\n"
        "  eval \"$(rankmesh env 'pp=4 dp=8 tp=8' --rank 67)\"\n"
        "  mpirun -n 8 rankmesh run 'pp=2 dp=2 tp=2'\n"
        "  rankmesh explain /tmp/records\n\n"
        "A mesh lists its axes outermost first; rankmesh SUBCOMMAND --help says more of a subcommand.");

    auto known = std::vector<Known>{};
    for (auto& subcommand : subcommands()) {
        auto* app = command.add_subcommand(subcommand.name, subcommand.help);
        for (const auto& option : subcommand.options) add(*app, option);
        app->footer(subcommand.footer)->allow_extras();
        known.push_back({std::move(subcommand), app});
    }

    check_subcommand(known, argc, argv);
    try {
        command.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        output.write(command.help());
        return yes;
    } catch (const CLI::CallForVersion& version) {
        output.print("{}\n", version.what());
        return yes;
    } catch (const CLI::ParseError& error) {
        throw UsageError(error.what());
    }
    for (const auto& [subcommand, app] : known)
        if (app->parsed()) {
            check_words(command, command.remaining());
            check_words(*app, app->remaining(), subcommand);
            return subcommand.run(output);
        }
    check_words(command, command.remaining());
    return yes;
}

}  // namespace
}  // namespace rankmesh::cli

int main(int argc, char** argv) {
    using namespace rankmesh;
    auto output = cli::Output{};
    try {
        const auto status = cli::run(argc, argv, output);
        output.flush();
        return status;
    } catch (const cli::Output::Unwanted&) {
        return cli::yes;
    } catch (const UsageError& error) {
        std::cerr << "rankmesh: " << error.what() << '\n';
        return cli::usage_error;
    } catch (const std::exception& error) {
        std::cerr << "rankmesh: " << error.what() << '\n';
        return cli::no;
    }
}
