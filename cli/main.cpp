// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>
#include <type_traits>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

#include <CLI/CLI.hpp>

#include "help.hpp"
#include "output.hpp"
#include "subcommand.hpp"

namespace rankmesh::cli {

namespace {

constexpr auto yes = 0;
constexpr auto no = 1;
constexpr auto usage_error = 2;

struct Unit {
    std::string_view name;
    std::uint64_t bytes;
};

constexpr auto units = std::array<Unit, 9>{{{"TiB", std::uint64_t{1} << 40},
                                            {"GiB", std::uint64_t{1} << 30},
                                            {"MiB", std::uint64_t{1} << 20},
                                            {"KiB", std::uint64_t{1} << 10},
                                            {"B", 1},
                                            {"kB", 1'000},
                                            {"MB", 1'000'000},
                                            {"GB", 1'000'000'000},
                                            {"TB", 1'000'000'000'000}}};

/// Reads `4096`, `64MiB` or `1.5 GB`. Throws UsageError, which begins with `option`, unless it is a whole
/// number of bytes from `least` to `most`.
///
/// Law: `read_bytes(bytes_text(n), ...)` is n.
Bytes read_bytes(std::string_view text, std::string_view option, std::size_t least, std::size_t most) {
    const auto wrong = [&](const std::string& what) {
        return UsageError(fmt::format(
            "{} {}; give {} to {}, as a number of bytes or with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or "
            "TiB",
            option, what, bytes_text(least), bytes_text(most)));
    };
    auto number = 0.0;
    const auto* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    auto name = std::string_view(stop, static_cast<std::size_t>(end - stop));
    if (name.starts_with(' ')) name.remove_prefix(1);
    const auto unit = std::ranges::find(units, name.empty() ? "B" : name, &Unit::name);
    if (error != std::errc{} || unit == units.end())
        throw wrong(fmt::format("is {}, which is not a size", detail::in_quotes(text)));
    const auto bytes = number * static_cast<double>(unit->bytes);
    if (!(bytes >= static_cast<double>(least) && bytes <= static_cast<double>(most)))
        throw wrong(fmt::format("is {}", detail::in_quotes(text)));
    if (std::abs(bytes - std::round(bytes)) > 1e-6 * bytes)
        throw wrong(fmt::format("is {}, which is not a whole number of bytes", detail::in_quotes(text)));
    return {static_cast<std::size_t>(std::llround(bytes))};
}

CLI::Option* added(CLI::App& app, const Option& option, auto& target) {
    return app.add_option(option.name, target, option.help);
}
CLI::Option* added(CLI::App& app, const Option& option, bool& target) {
    return app.add_flag(option.name, target, option.help);
}
CLI::Option* added(CLI::App& app, const Option& option, Bytes& target) {
    const auto range = option.range.value();
    const auto read = [&target, name = option.name, range](const std::string& text) {
        target = read_bytes(text, name, static_cast<std::size_t>(range.least),
                            static_cast<std::size_t>(range.most));
    };
    return app.add_option_function<std::string>(option.name, read, option.help);
}
CLI::Option* added(CLI::App& app, const Option& option, std::vector<std::string>& target) {
    // A positional argument takes all remaining words; an option takes one word each time.
    return app.add_option(option.name, target, option.help)->allow_extra_args(!option.name.starts_with('-'));
}

/// Throws UsageError for a value that is not a number, or outside the range of the option.
template <class Number>
void check_number(CLI::Option& one, const Option& option) {
    using Limits = std::numeric_limits<Number>;
    const auto& range = option.range;
    const auto least = range ? static_cast<Number>(range->least) : Limits::lowest();
    const auto most = range ? static_cast<Number>(range->most) : Limits::max();
    const auto kind = std::string(std::is_integral_v<Number> ? "a whole number" : "a number");
    const auto wanted = range ? fmt::format("{} from {} to {}", kind, range->least, range->most) : kind;
    const auto check = [=, name = option.name](const std::string& text) {
        auto value = Number{};
        if (!CLI::detail::lexical_cast(text, value) || !(value >= least && value <= most))
            throw UsageError(fmt::format("{} is {}; give {}", name, detail::in_quotes(text), wanted));
        return std::string{};
    };
    one.check(CLI::Validator(check, ""));
}

/// Throws UsageError for a value that is none of the option's.
void check_word(CLI::Option& one, const Option& option) {
    const auto check = [name = option.name, values = option.values](const std::string& text) {
        if (std::ranges::find(values, text) == values.end())
            throw UsageError(fmt::format("{} must be one of {}, not {}{}", name, detail::listed(values),
                                         detail::in_quotes(text),
                                         did_you_mean(text, {values.begin(), values.end()})));
        return std::string{};
    };
    one.check(CLI::Validator(check, ""));
}

void add(CLI::App& app, const Option& option) {
    std::visit(
        [&](auto* target) {
            using Value = std::remove_pointer_t<decltype(target)>;
            auto* one = added(app, option, *target);
            if constexpr (std::is_same_v<Value, std::optional<int>>)
                check_number<int>(*one, option);
            else if constexpr (std::is_same_v<Value, std::size_t> || std::is_same_v<Value, double>)
                check_number<Value>(*one, option);
            else if (option.range && !std::is_same_v<Value, Bytes>)
                throw std::logic_error("only numbers have a range");
            if (option.takes_only_values) check_word(*one, option);
            if (!option.type.empty()) one->type_name(option.type);
        },
        option.target);
}

std::string version_text() {
    return fmt::format("rankmesh {}\nengines: {}", RANKMESH_VERSION, engines_text());
}

/// True for an option; not for `--`, after which no options follow.
bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

/// Throws UsageError unless the first word is a subcommand or an option.
void check_subcommand(const std::vector<Subcommand>& subcommands, int argc, char** argv) {
    if (argc < 2)
        throw UsageError(fmt::format("missing subcommand; one of: {}; see rankmesh --help",
                                     joined(names_of(subcommands), ", ")));
    if (const auto word = std::string_view(argv[1]); !is_option(word)) find_subcommand(subcommands, word);
}

/// Returns the list that takes the words after `--` unchanged; nullptr if the subcommand has none.
std::vector<std::string>* rest_of(const Subcommand& subcommand) {
    for (const auto& option : subcommand.options)
        if (option.is_list()) return std::get<std::vector<std::string>*>(option.target);
    return nullptr;
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
    for (const auto& option : subcommand.options)
        if (!option.has_dashes() && option.name != subcommand.optional_positional &&
            app.count(option.name) == 0 && !(option.is_list() && !rest_of(subcommand)->empty()))
            throw UsageError(
                fmt::format("missing argument {}: {}; see {} --help", option.name, option.help, full_name));
}

/// Explains CLI11's `--width: 1 required N missing` or `--rank: At Most 1 required but received 2`.
std::string mismatch_text(const std::string& text) {
    const auto option = text.substr(0, text.find(':'));
    return option + (text.ends_with("missing") ? " has no value" : " is given more than once");
}

int run(int argc, char** argv, Output& output) {
    auto command = CLI::App(std::string(summary), "rankmesh");
    command.set_version_flag(version_flag.name, version_text);
    command.set_help_flag("-h,--help");
    command.allow_extras();

    const auto all = subcommands();
    check_subcommand(all, argc, argv);
    auto words = std::vector<std::string>(argv + 1, argv + argc);
    // CLI11 knows only this subcommand; names of other subcommands are ordinary words.
    const auto asked = std::ranges::find(all, words.front(), &Subcommand::name);
    auto* app = asked == all.end() ? nullptr : command.add_subcommand(asked->name)->allow_extras();
    auto* rest = app ? rest_of(*asked) : nullptr;
    if (app)
        for (const auto& option : asked->options) add(*app, option);

    // CLI11 would pass words after -- to the command if the list already has words.
    const auto mark = rest ? std::ranges::find(words, "--") : words.end();
    auto behind = std::vector<std::string>(mark == words.end() ? mark : mark + 1, words.end());
    words.erase(mark, words.end());
    std::ranges::reverse(words);  // the order that CLI11 expects
    try {
        command.parse(std::move(words));
    } catch (const CLI::CallForHelp&) {
        output.write(app ? help_text(*asked, terminal_width()) : help_text(all, terminal_width()));
        return yes;
    } catch (const CLI::CallForVersion& version) {
        output.print("{}\n", version.what());
        return yes;
    } catch (const CLI::ArgumentMismatch& error) {
        throw UsageError(
            fmt::format("{}; see rankmesh {} --help", mismatch_text(error.what()), app->get_name()));
    } catch (const CLI::ParseError& error) {
        throw UsageError(error.what());
    }
    if (rest) std::ranges::move(behind, std::back_inserter(*rest));
    check_words(command, command.remaining());
    if (!app) return yes;
    check_words(*app, app->remaining(), *asked);
    return asked->run(output);
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
    } catch (const std::bad_alloc&) {
        std::cerr << "rankmesh: the memory that this process may have is used up; raise its limit (ulimit "
                     "-v, or the limit of the job), or give less input\n";
        return cli::no;
    } catch (const UsageError& error) {
        std::cerr << "rankmesh: " << error.what() << '\n';
        return cli::usage_error;
    } catch (const std::exception& error) {
        std::cerr << "rankmesh: " << error.what() << '\n';
        return cli::no;
    }
}
