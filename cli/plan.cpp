// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <span>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/text.hpp>
#include <rankmesh/plan/answer.hpp>

#include "formats/text.hpp"
#include "plan_output.hpp"
#include "progress.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

std::string gib_text(std::int64_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 30));
}

std::string seconds_text(double seconds) {
    if (seconds < 0.0995) return fmt::format("{:.2g}", seconds);
    return fmt::format("{:.{}f}", seconds, seconds < 9.995 ? 2 : seconds < 99.95 ? 1 : 0);
}

std::string percent_text(double share) { return fmt::format("{:.1f}", 100 * share); }

std::size_t width_of(const std::string& text) {
    auto widest = std::size_t{0};
    for (const auto line : formats::split(text, '\n')) widest = std::max(widest, line.size());
    return widest;
}

void print_folded(std::string_view text, Output& output) {
    output.print("{}\n", folded(text, 2, static_cast<std::size_t>(terminal_width())));
}

void print_with_lines(const std::string& table, const std::vector<std::string>& below, Output& output) {
    const auto lines = formats::split(table, '\n');
    for (std::size_t i = 0; i <= below.size(); ++i) {
        output.print("{}\n", lines[i]);
        if (i > 0)
            output.print("  {}\n", folded(below[i - 1], 4,
                                          static_cast<std::size_t>(std::max(terminal_width(), 20) - 2)));
    }
}

void print_bytes(const std::vector<std::pair<std::int64_t, std::string_view>>& parts, Output& output) {
    auto rows = std::vector<std::vector<std::string>>{};
    for (const auto& [bytes, name] : parts)
        if (bytes > 0) rows.push_back({gib_text(bytes), std::string(name)});
    output.write(table(rows, 0, 1));
}

namespace of_plan {

struct Arguments {
    plan::Question question;
    std::optional<std::string> on;
    std::optional<int> nodes;
    std::optional<int> batch;
    std::optional<int> sequence;
    bool json = false;
};

using plan::StepPart;

std::string range_text(const plan::Step& step) {
    return fmt::format("{}..{}", seconds_text(step.low), seconds_text(step.high));
}

/// Returns the fraction of a part in a step.
double share(const plan::Planned& one, const StepPart& part) {
    return one.step.*part.seconds / one.step.seconds;
}

/// Returns the numeric columns of the table, after a row of names. Parts that are not in `shown` share one
/// column.
std::vector<std::vector<std::string>> numbers_of(std::span<const plan::Planned> shown,
                                                 const std::vector<StepPart>& present, bool has_rest) {
    auto rows = std::vector<std::vector<std::string>>{{"step s", "range", "GiB"}};
    for (const auto& part : present) rows.front().push_back(fmt::format("{} %", part.column));
    if (has_rest) rows.front().push_back("rest %");
    for (const auto& one : shown) {
        rows.push_back({seconds_text(one.step.seconds), range_text(one.step), gib_text(one.memory.estimate)});
        auto rest = 1.0;
        for (const auto& part : present) {
            rows.back().push_back(percent_text(share(one, part)));
            rest -= share(one, part);
        }
        if (has_rest) rows.back().push_back(percent_text(std::max(0.0, rest)));
    }
    return rows;
}

/// Prints one line for each layout. On a narrow terminal, mesh and settings are below the numbers, and the
/// smallest parts share one column.
void print_table(const plan::Answer& answer, std::size_t count, Output& output) {
    const auto shown = std::span(answer.found->best).first(std::min(count, answer.found->best.size()));
    const auto most = [&](const StepPart& part) {
        auto most = 0.0;
        for (const auto& one : shown) most = std::max(most, share(one, part));
        return most;
    };
    auto present = std::vector<StepPart>{};
    for (const auto& part : plan::step_parts)
        if (most(part) >= 0.0005) present.push_back(part);
    const auto width = known_width();
    auto rows = numbers_of(shown, present, false);
    auto wide = rows;
    wide.front().insert(wide.front().end(), {"mesh", "settings"});
    for (std::size_t i = 0; i < shown.size(); ++i)
        wide[i + 1].insert(wide[i + 1].end(),
                           {to_string(plan::mesh(shown[i].layout)), plan::settings_text(shown[i].layout)});
    auto text = table(wide, 0, 2);
    if (!width || width_of(text) <= static_cast<std::size_t>(*width)) return output.write(text);
    for (text = table(rows, 0, 0); width_of(text) > static_cast<std::size_t>(*width) && !present.empty();
         text = table(rows, 0, 0)) {
        present.erase(std::ranges::min_element(present, {}, most));
        rows = numbers_of(shown, present, true);
    }
    auto layouts = std::vector<std::string>{};
    for (const auto& one : shown)
        layouts.push_back(
            fmt::format("{}  {}", to_string(plan::mesh(one.layout)), plan::settings_text(one.layout)));
    print_with_lines(text, layouts, output);
}

/// Returns by how much parts of the next layout differ from the best: those that are slower, and the others.
std::string difference_text(const plan::Step& best, const plan::Step& next) {
    auto all = std::vector<std::pair<double, std::string_view>>{};
    for (const auto& part : plan::step_parts)
        all.emplace_back(next.*part.seconds - best.*part.seconds, part.column);
    std::ranges::sort(all, std::greater<>{});
    auto text = std::string{};
    auto others = next.seconds - best.seconds;
    for (const auto& [more, name] : all)
        if (more > 0.2 * (all.front().first)) {
            text += fmt::format("{} {} s{} for {}", text.empty() ? "" : ",", seconds_text(more),
                                text.empty() ? " more" : "", name);
            others -= more;
        }
    if (!text.empty() && std::abs(others) > 0.2 * (next.seconds - best.seconds))
        text += fmt::format(" and {} s {} for the rest", seconds_text(std::abs(others)),
                            others > 0 ? "more" : "less");
    return text;
}

void print_reasons(const plan::Answer& answer, Output& output) {
    const auto& best = answer.found->best;
    const auto say = [&](const std::string& text) { print_folded(text, output); };
    if (best.size() > 1) {
        const auto gain = best[1].step.seconds / best[0].step.seconds - 1;
        const auto more = difference_text(best[0].step, best[1].step);
        say(fmt::format("gain: {} % over the next mesh, {}{}{}", percent_text(gain),
                        to_string(plan::mesh(best[1].layout)), more.empty() ? "" : ", which takes", more));
        if (best[1].step.seconds < best[0].step.high)
            say("unsure: the ranges of the first two overlap, so measure both; three measured steps in "
                "--measured FILE narrow them");
    }
    const auto& first = best.front();
    if (!first.step.beyond.empty()) say(fmt::format("wider range: {}", first.step.beyond));
    const auto& bound = plan::what_binds(first.step);
    say(fmt::format(
        "binds: {} % of the step is {} ({}), the most beside compute and attn; memory is {} of {} GiB on "
        "stage {}",
        percent_text(share(first, bound)), bound.column, bound.what, gib_text(first.memory.estimate),
        gib_text(answer.capacity), first.memory.stage));
    for (const auto& help : answer.help)
        say(fmt::format("helps: {} gains {} %{}{}", help.what, percent_text(help.gain),
                        help.how.empty() ? "" : ", with ", help.how));
    say(
        fmt::format("looked at: {} meshes with {} layouts of even stages, and more with uneven stages or "
                    "partial recomputation; step times were computed for {}, and the others cannot be faster",
                    answer.found->meshes, answer.found->layouts, answer.found->evaluated));
}

void print_parts(const plan::Planned& planned, std::int64_t capacity, Output& output) {
    const auto& [layout, step, memory] = planned;
    output.print("step {} s ({}{}{})\n", seconds_text(step.seconds), range_text(step),
                 step.beyond.empty() ? "" : "; wider: ", step.beyond);
    auto rows = std::vector<std::vector<std::string>>{};
    for (const auto& part : plan::step_parts)
        rows.push_back({seconds_text(step.*part.seconds),
                        percent_text(step.*part.seconds / step.seconds) + " %", std::string(part.column),
                        std::string(part.what)});
    output.write(table(rows, 0, 2));
    output.print("\nmemory {} GiB of {} on stage {}; {} without buffers and overhead\n",
                 gib_text(memory.estimate), gib_text(capacity), memory.stage, gib_text(memory.lower));
    auto bytes = std::vector<std::pair<std::int64_t, std::string_view>>{};
    for (const auto& [name, part] : plan::memory_parts) bytes.emplace_back(memory.*part, name);
    print_bytes(bytes, output);
}

void print_explained(const plan::Answer& answer, Output& output) {
    const auto& explained = *answer.explained;
    output.print("{}\n\n", to_string(explained.planned.layout));
    print_parts(explained.planned, explained.capacity, output);
    const auto spare = explained.capacity - explained.planned.memory.estimate;
    if (explained.fit() == plan::Fit::fits)
        return output.print("\nfits, with {} GiB to spare\n", gib_text(spare));
    if (explained.fit() == plan::Fit::tight)
        output.print("\ntight, with {} GiB to spare: less than the error of the estimate, {:.0f} %\n",
                     gib_text(spare), 100 * plan::memory_error);
    else
        output.print("\ndoes not fit: {} GiB too much\n", gib_text(-spare));
    if (const auto& change = explained.change)
        output.print("least change that fits: {}\n  step {} s, memory {} GiB\n", to_string(change->layout),
                     seconds_text(change->step.seconds), gib_text(change->memory.estimate));
    else
        output.write("no change of one or two settings makes it fit\n");
}

void print_nothing_fits(const plan::Answer& answer, Output& output) {
    if (const auto& least = answer.found->smallest) {
        print_folded(
            fmt::format(
                "nothing fits: {} needs the least memory, {} of {} GiB; try more devices or a shorter "
                "sequence, or see --explain with that layout",
                to_string(least->layout), gib_text(least->memory.estimate), gib_text(answer.capacity)),
            output);
        if (const auto& tight = answer.tight)
            output.print(
                "tight: {}\n  step {} s, memory {} GiB; whether it fits is within the error of {:.0f} %\n",
                to_string(tight->layout), seconds_text(tight->step.seconds), gib_text(tight->memory.estimate),
                100 * plan::memory_error);
        if (const auto& relaxed = answer.relaxed)
            output.print("fits with other settings: {}\n  step {} s, memory {} GiB\n",
                         to_string(relaxed->layout), seconds_text(relaxed->step.seconds),
                         gib_text(relaxed->memory.estimate));
    } else {
        output.write("the framework supports none of the layouts; try without --as\n");
    }
}

void print_settings(const plan::FrameworkSettings& settings, Output& output) {
    output.print("\n{}\n", settings.text);
    output.flush();
    for (const auto& note : settings.notes) std::cerr << "# " << note << '\n';
}

void print_text(const plan::Answer& answer, std::size_t count, Output& output) {
    const auto& job = answer.job;
    output.print("{}\n", folded_if_known(fmt::format(
                             "{} · {:.4g} B parameters · {} {} · {} {} x {} tokens · {}",
                             job.model.name.empty() ? "model" : job.model.name,
                             static_cast<double>(plan::parameters(job.model).total) / 1e9, job.devices,
                             job.machine.device.name, answer.serve ? "requests" : "batch", job.batch,
                             job.sequence, plan::to_string(job.weights.value_or(job.precision)))));
    if (job.model.kinds.size() > 1) print_folded(plan::layers_text(job.model), output);
    for (const auto& one : answer.notes) print_folded("note: " + one, output);
    for (const auto& one : answer.assumed) print_folded("assumed: " + one, output);
    if (const auto& made = answer.calibration)
        print_folded(fmt::format("calibrated by {} measured steps: times are {:.3g} of the model's; "
                                 "mean error {} % before, {} % after{}",
                                 made->steps, made->factor, percent_text(made->before),
                                 percent_text(made->after), made->steps > 1 ? ", each by the others" : ""),
                     output);
    output.write("\n");
    if (answer.serve) {
        print_serving(answer, output);
    } else if (answer.explained) {
        print_explained(answer, output);
    } else if (answer.found->best.empty()) {
        print_nothing_fits(answer, output);
    } else {
        print_table(answer, count, output);
        output.write("\n");
        print_reasons(answer, output);
    }
    if (answer.settings) print_settings(*answer.settings, output);
}

/// Returns the number of devices of the first nodes of the cluster.
int devices_of(int nodes, const plan::Question& question) {
    if (!question.on) throw UsageError("--nodes requires a cluster; add --on CLUSTER");
    const auto& on = *question.on;
    const auto level = on.level_count() - 2;
    const auto all = level < 0 ? 1 : on.unit_count(level);
    if (nodes < 1 || nodes > all)
        throw UsageError(
            fmt::format("--nodes is {}, but {} has {}", nodes, to_string(on), detail::counted(all, "node")));
    const auto devices = nodes < all ? on.first_device(nodes, level) : on.size();
    if (question.devices && *question.devices != devices)
        throw UsageError(fmt::format("--nodes {} of {} is {}, but --gpus is {}; give one of the two", nodes,
                                     to_string(on), detail::counted(devices, "device"), *question.devices));
    return devices;
}

int run(Arguments& arguments, Output& output) {
    auto& question = arguments.question;
    question.on = cluster_of(arguments.on);
    if (arguments.nodes) question.devices = devices_of(*arguments.nodes, question);
    if (arguments.batch) question.batch = *arguments.batch;
    if (arguments.sequence) question.sequence = *arguments.sequence;
    auto progress = Progress::on_terminal();
    question.progress = [&](std::size_t done, std::size_t all) {
        progress.at([&] { return fmt::format("{} of {} meshes", done, all); });
    };
    const auto answer = plan::answer(question);
    if (arguments.json)
        output.print("{}\n", plan::to_json(answer));
    else
        print_text(answer, question.count, output);
    return answer.fits() ? 0 : 1;
}

}  // namespace of_plan

Subcommand plan() {
    const auto arguments = std::make_shared<of_plan::Arguments>();
    auto& question = arguments->question;
    return {
        .name = "plan",
        .help = "Find the fastest layouts of a training job that fit into memory, and explain them.",
        .options =
            {with_values(names_of(plan::models()),
                         {"MODEL",
                          "the model: a name such as llama3.1-8B, a config.json, Megatron's flags, or sizes "
                          "in one line",
                          &question.model}),
             {"--serve", "plan an engine of vLLM or SGLang that serves the model", &question.serve},
             {"--on", "the cluster, such as 'node:32(400GB/s,5us) gpu:8(450GB/s,2us)'", &arguments->on,
              "CLUSTER"},
             with_values(names_of(plan::devices()), {"--device", "type of the devices, such as H100-SXM-80GB",
                                                     &question.device, "NAME"}),
             {"--devices-file", "file with more types of devices, in the columns of devices.csv",
              &question.devices_file, "FILE"},
             {"--gpus", "number of devices to use; default: all of the cluster", &question.devices, "N"},
             {"--nodes", "number of nodes to use, instead of --gpus", &arguments->nodes, "N"},
             {"--batch", "sequences per step; with --serve: requests at a time", &arguments->batch, "B"},
             {"--seq", "tokens per sequence; default: the model's; with --serve: of prompt and answer",
              &arguments->sequence, "S"},
             with_values({"bf16", "fp8"},
                         {"--precision", "weights and matrix products in bf16 or fp8; default: bf16",
                          &question.precision, "TYPE"}),
             with_values({"bf16", "fp8"},
                         {"--compute", "matrix products in bf16 or fp8, instead of --precision",
                          &question.compute, "TYPE"}),
             with_values({"bf16", "fp8", "int8", "nvfp4", "mxfp4", "int4"},
                         {"--weights", "with --serve: weights in this type; default: the checkpoint's",
                          &question.weights, "TYPE"}),
             with_values({"bf16", "fp8"},
                         {"--kv", "with --serve: KV cache in bf16 or fp8", &question.kv, "TYPE"}),
             {"--fix", "fix a setting, such as tp=8; may be repeated", &question.fix, "NAME=VALUE"},
             {"--max", "limit a setting, such as pp=16; may be repeated", &question.most, "NAME=VALUE"},
             with_values(
                 names_of(known_frameworks()),
                 {"--as",
                  "find only layouts that this framework supports, and print the best as its settings",
                  &question.as, "FRAMEWORK"}),
             {"--measured", "calibrate by measured steps; each line of FILE has seconds and a layout",
              &question.measured, "FILE"},
             {"--explain", "break down only this layout, even if it does not fit", &question.explain,
              "LAYOUT"},
             {"--count", "number of layouts in the table; default: 10", &question.count, "N",
              Option::Range{1, 1000, false}},
             {"--json", "print JSON; docs/json.md describes it", &arguments->json}},
        .run = [arguments](Output& output) { return of_plan::run(*arguments, output); },
        .group = Group::plan,
        .examples = {"rankmesh plan llama3.1-8B --on 'node:8(400GB/s) gpu:8(450GB/s)' --device H100",
                     "rankmesh plan deepseek-v3 --serve --on 'node:2(400GB/s) gpu:8(450GB/s)' --device H100 "
                     "--precision fp8"},
        .notes =
            "A LAYOUT is a mesh and settings, as the table prints them: 'pp=4 dp=8 tp=8 vpp=2 mbs=1 zero=1 "
            "recompute=full:3 first=7 last=6'. docs/plan.md describes the model, its errors and its limits.\n"
            "With --serve, settings are pp, dp, tp, ep, dcp and cache=fp8: docs/plan-serving.md.\n"
            "Exit status 1: no layout fits."};
}

}  // namespace rankmesh::cli
