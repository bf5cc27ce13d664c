// SPDX-License-Identifier: Apache-2.0
// rankmesh-plan-score [--kept] [--rows] [--without TERM | --ablation | --fit | --left-out] FILE...: how far
// the model is from measurements.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

#include "bench/plan/fit.hpp"
#include "bench/plan/report.hpp"
#include "bench/plan/rows.hpp"
#include "bench/plan/terms.hpp"

namespace {

using namespace rankmesh;
using detail::cat;
using detail::in_quotes;

constexpr auto usage =
    "usage: rankmesh-plan-score [--kept] [--rows] [--without TERM | --ablation | --fit | --left-out] "
    "FILE...\n"
    "Predicts the step times and memory of the measurements in each FILE, with the columns that "
    "docs/plan-model.md "
    "names, and prints the errors.\n"
    "A models.csv and a hardware.csv beside the first FILE add shapes and devices.\n"
    "  --kept          only the rows that no constant was fitted on\n"
    "  --rows          prints each row too\n"
    "  --without TERM  leaves a term of the model out\n"
    "  --ablation      prints what leaving out each term does\n"
    "  --fit           fits the constants on the rows of grade A that are not kept, and prints them\n"
    "  --left-out      prints the errors of each source, predicted by a fit on the other sources\n";

std::string read_file(const std::string& name) {
    auto in = std::ifstream(name, std::ios::binary);
    auto failed = std::error_code{};
    if (!in || std::filesystem::is_directory(name, failed))
        throw UsageError(cat("cannot read ", in_quotes(name)));
    auto text = std::string(std::istreambuf_iterator<char>(in), {});
    if (in.bad()) throw UsageError(cat("cannot read ", in_quotes(name)));
    return text;
}

struct Asked {
    std::vector<std::string> files = {};
    bool help = false, kept = false, each = false, ablation = false, fit = false, left_out = false;
    const plan::score::Term* without = nullptr;
};

Asked read_arguments(const std::vector<std::string>& arguments) {
    auto asked = Asked{};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto& word = arguments[i];
        if (word == "--help" || word == "-h") {
            asked.help = true;
            return asked;
        }
        if (word == "--kept") {
            asked.kept = true;
        } else if (word == "--fit") {
            asked.fit = true;
        } else if (word == "--left-out") {
            asked.left_out = true;
        } else if (word == "--rows") {
            asked.each = true;
        } else if (word == "--ablation") {
            asked.ablation = true;
        } else if (word == "--without") {
            if (++i == arguments.size()) throw UsageError("--without names no term");
            auto names = std::vector<std::string_view>{};
            for (const auto& term : plan::score::terms()) {
                names.push_back(term.name);
                if (term.name == arguments[i]) asked.without = &term;
            }
            if (asked.without == nullptr || asked.without->name != arguments[i])
                throw UsageError(cat("no term is named ", in_quotes(arguments[i]),
                                     did_you_mean(arguments[i], names), "; there are ",
                                     detail::listed({names.begin(), names.end()})));
        } else if (word.starts_with("-") && word.size() > 1) {
            throw UsageError(cat("there is no option ", in_quotes(word)));
        } else {
            asked.files.push_back(word);
        }
    }
    if (asked.files.empty()) throw UsageError(cat("names no file\n", usage));
    return asked;
}

int run(const std::vector<std::string>& arguments) {
    const auto asked = read_arguments(arguments);
    if (asked.help) {
        std::fputs(usage, stdout);
        return 0;
    }
    auto beside = plan::score::Known{
        .models = plan::read_models(read_file(RANKMESH_PLAN_MODELS), RANKMESH_PLAN_MODELS), .devices = {}};
    const auto folder = std::filesystem::path(asked.files.front()).parent_path();
    auto failed = std::error_code{};
    if (const auto name = (folder / "models.csv").string(); std::filesystem::is_regular_file(name, failed))
        std::ranges::move(plan::read_models(read_file(name), name), std::back_inserter(beside.models));
    if (const auto name = (folder / "hardware.csv").string(); std::filesystem::is_regular_file(name, failed))
        beside.devices = plan::read_devices(read_file(name), name);
    auto rows = std::vector<plan::score::Row>{};
    auto left_out = std::map<std::string, int>{};
    for (const auto& file : asked.files) {
        auto table = plan::score::read(read_file(file), file, beside);
        for (auto& row : table.rows)
            if (asked.fit ? !row.kept_back : !asked.kept || row.kept_back) rows.push_back(std::move(row));
        for (const auto& [why, count] : table.left_out) left_out[why] += count;
    }
    auto text = std::string{};
    if (rows.empty()) text += "0 rows can be scored\n";
    for (const auto& [why, count] : left_out)
        text += cat(detail::counted(count, "row"), " cannot be scored: ", detail::escaped(why), "\n");
    if (!text.empty()) text += '\n';
    if (asked.fit) {
        text += plan::score::fitted_text(rows);
    } else if (asked.left_out) {
        text += plan::score::families_left_out(rows);
    } else {
        const auto scored = plan::score::predict(rows, asked.without);
        if (asked.each) text += plan::score::listing(scored);
        text += asked.ablation ? plan::score::ablation(rows) : plan::score::report(scored);
    }
    std::fputs(text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rankmesh-plan-score: %s\n", error.what());
        return 2;
    }
}
