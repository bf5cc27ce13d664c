// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <ranges>
#include <span>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/text.hpp>
#include <rankmesh/plan/answer.hpp>

#include "formats/text.hpp"
#include "output.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_plan {

std::string gib_text(std::int64_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 30));
}

/// Returns seconds with three digits.
std::string seconds_text(double seconds) {
    if (seconds < 0.0995) return fmt::format("{:.2g}", seconds);
    return fmt::format("{:.{}f}", seconds, seconds < 9.995 ? 2 : seconds < 99.95 ? 1 : 0);
}

std::string percent_text(double share) { return fmt::format("{:.1f}", 100 * share); }

/// Returns whether no line of a text is wider than the terminal, if its width is known.
bool fits(const std::string& text) {
    const auto width = known_width();
    return !width || std::ranges::all_of(formats::split(text, '\n'), [&](std::string_view line) {
        return line.size() <= static_cast<std::size_t>(*width);
    });
}

/// Prints a paragraph with lines of the width of the terminal; 80 where it is not known.
template <class... Values>
void say(Output& output, fmt::format_string<Values...> format, Values&&... values) {
    const auto text = fmt::format(format, std::forward<Values>(values)...);
    output.print("{}\n", folded(text, 2, static_cast<std::size_t>(terminal_width())));
}

/// Prints a table whose first row has names, and below each other row the line of `below`.
void print_with_lines(const std::string& table, const std::vector<std::string>& below, Output& output) {
    const auto lines = formats::split(table, '\n');
    const auto width = static_cast<std::size_t>(std::max(terminal_width(), 20) - 2);
    output.print("{}\n", lines[0]);
    for (std::size_t i = 0; i < below.size(); ++i)
        output.print("{}\n  {}\n", lines[i + 1], folded(below[i], 4, width));
}

void print_bytes(const std::vector<std::pair<std::int64_t, std::string_view>>& parts, Output& output) {
    auto rows = std::vector<std::vector<std::string>>{};
    for (const auto& [bytes, name] : parts)
        if (bytes > 0) rows.push_back({gib_text(bytes), std::string(name)});
    output.write(table(rows, 0, 1));
}

struct Arguments {
    plan::Question question;
    std::optional<std::string> on;
    std::optional<int> nodes;
    std::optional<int> batch;
    std::optional<int> sequence;
    bool json = false;
};

std::string range_text(const plan::Step& step) {
    return fmt::format("{}..{}", seconds_text(step.low), seconds_text(step.high));
}

double share(const plan::Planned& one, const plan::StepPart& part) {
    return one.step.*part.seconds / one.step.seconds;
}

/// Returns the numeric columns of the table, after a row of names. Parts that are not in `shown` share one
/// column.
std::vector<std::vector<std::string>> numbers_of(std::span<const plan::Planned> shown,
                                                 const std::vector<plan::StepPart>& present, bool has_rest) {
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
void print_table(const plan::Answer& answer, Output& output) {
    const auto shown = std::span(answer.found->best).first(std::min(answer.count, answer.found->best.size()));
    const auto most = [&](const plan::StepPart& part) {
        return std::ranges::max(shown |
                                std::views::transform([&](const auto& one) { return share(one, part); }));
    };
    auto present = std::vector<plan::StepPart>{};
    for (const auto& part : plan::step_parts)
        if (most(part) >= 0.0005) present.push_back(part);
    auto rows = numbers_of(shown, present, false);
    auto wide = rows;
    wide.front().insert(wide.front().end(), {"mesh", "settings"});
    for (std::size_t i = 0; i < shown.size(); ++i)
        wide[i + 1].insert(wide[i + 1].end(),
                           {to_string(plan::mesh(shown[i].layout)), plan::settings_text(shown[i].layout)});
    auto text = table(wide, 0, 2);
    if (fits(text)) return output.write(text);
    for (text = table(rows, 0, 0); !fits(text) && !present.empty(); text = table(rows, 0, 0)) {
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
    if (best.size() > 1) {
        const auto gain = best[1].step.seconds / best[0].step.seconds - 1;
        const auto more = difference_text(best[0].step, best[1].step);
        say(output, "gain: {} % over the next mesh, {}{}{}", percent_text(gain),
            to_string(plan::mesh(best[1].layout)), more.empty() ? "" : ", which takes", more);
        if (best[1].step.seconds < best[0].step.high)
            say(output,
                "unsure: the ranges of the first two overlap, so measure both; three measured steps in "
                "--measured FILE narrow them");
    }
    const auto& first = best.front();
    if (!first.step.beyond.empty()) say(output, "wider range: {}", first.step.beyond);
    const auto& bound = plan::what_binds(first.step);
    say(output,
        "binds: {} % of the step is {} ({}), the most beside compute and attn; memory is {} of {} GiB on "
        "stage {}",
        percent_text(share(first, bound)), bound.column, bound.what, gib_text(first.memory.estimate),
        gib_text(answer.capacity), first.memory.stage);
    for (const auto& help : answer.help)
        say(output, "helps: {} gains {} %{}{}", help.what, percent_text(help.gain),
            help.how.empty() ? "" : ", with ", help.how);
    say(output,
        "looked at: {} meshes with {} layouts of even stages, and more with uneven stages or "
        "partial recomputation; step times were computed for {}, and the others cannot be faster",
        answer.found->meshes, answer.found->layouts, answer.found->evaluated);
}

std::string brief(const plan::Planned& one) {
    return fmt::format("{}\n  step {} s, memory {} GiB", to_string(one.layout),
                       seconds_text(one.step.seconds), gib_text(one.memory.estimate));
}

void print_explained(const plan::Answer& answer, Output& output) {
    const auto& explained = *answer.explained;
    const auto& [layout, step, memory] = explained.planned;
    output.print("{}\n\nstep {} s ({}{}{})\n", to_string(layout), seconds_text(step.seconds),
                 range_text(step), step.beyond.empty() ? "" : "; wider: ", step.beyond);
    auto rows = std::vector<std::vector<std::string>>{};
    for (const auto& part : plan::step_parts)
        rows.push_back({seconds_text(step.*part.seconds),
                        percent_text(step.*part.seconds / step.seconds) + " %", std::string(part.column),
                        std::string(part.what)});
    output.write(table(rows, 0, 2));
    output.print("\nmemory {} GiB of {} on stage {}; {} without buffers and overhead\n",
                 gib_text(memory.estimate), gib_text(explained.capacity), memory.stage,
                 gib_text(memory.lower));
    auto bytes = std::vector<std::pair<std::int64_t, std::string_view>>{};
    for (const auto& [name, part] : plan::memory_parts) bytes.emplace_back(memory.*part, name);
    print_bytes(bytes, output);
    const auto spare = explained.capacity - memory.estimate;
    if (explained.fit() == plan::Fit::fits)
        return output.print("\nfits, with {} GiB to spare\n", gib_text(spare));
    if (explained.fit() == plan::Fit::tight)
        output.print("\ntight, with {} GiB to spare: less than the error of the estimate, {:.0f} %\n",
                     gib_text(spare), 100 * plan::memory_error);
    else
        output.print("\ndoes not fit: {} GiB too much\n", gib_text(-spare));
    if (explained.change)
        output.print("least change that fits: {}\n", brief(*explained.change));
    else
        output.write("no change of one or two settings makes it fit\n");
}

void print_nothing_fits(const plan::Answer& answer, Output& output) {
    const auto& least = answer.found->smallest;
    if (!least) return output.write("the framework supports none of the layouts; try without --as\n");
    say(output,
        "nothing fits: {} needs the least memory, {} of {} GiB; try more devices or a shorter sequence, or "
        "see --explain with that layout",
        to_string(least->layout), gib_text(least->memory.estimate), gib_text(answer.capacity));
    if (answer.tight)
        output.print("tight: {}; whether it fits is within the error of {:.0f} %\n", brief(*answer.tight),
                     100 * plan::memory_error);
    if (answer.relaxed) output.print("fits with other settings: {}\n", brief(*answer.relaxed));
}

struct PartText {
    std::string_view name;
    std::string_view unit;
    std::string_view what;
};
constexpr auto serving_parts = std::array<PartText, 6>{{{"compute", "flop", "matrix products, attention"},
                                                        {"memory", "B", "reading weights and KV cache"},
                                                        {"tp", "B", "all-reduces, gathering of logits"},
                                                        {"dcp", "B", "queries to all parts of the cache"},
                                                        {"ep", "B", "tokens to experts and back"},
                                                        {"pp", "B", "messages between stages"}}};

/// Returns `1.25 G`, in powers of 1000.
std::string amount_text(double amount) {
    constexpr auto prefixes = std::array<std::string_view, 7>{"", "K", "M", "G", "T", "P", "E"};
    auto power = std::size_t{0};
    for (; amount >= 999.5 && power + 1 < prefixes.size(); ++power) amount /= 1000;
    return fmt::format("{:.3g} {}", amount, prefixes[power]);
}

/// Returns a range of seconds in milliseconds.
std::string ms_text(double low, double high) {
    return fmt::format("{}..{}", seconds_text(1e3 * low), seconds_text(1e3 * high));
}

/// Returns the tokens of all requests a second, from slow to fast.
std::string rate_text(double tokens, const plan::Pass& pass) {
    return fmt::format("{}..{}", std::llround(tokens / pass.high), std::llround(tokens / pass.low));
}

const plan::ServePart& longest(const plan::Pass& pass) {
    return *std::ranges::max_element(pass.parts, {}, &plan::ServePart::high);
}

const PartText& text_of(const plan::ServePart& part) {
    return *std::ranges::find(serving_parts, part.name, &PartText::name);
}

void print_serving_table(const plan::Answer& answer, Output& output) {
    const auto& best = answer.serve->found->best;
    auto rows = std::vector<std::vector<std::string>>{
        {"decode ms", "tokens/s", "prefill ms", "GiB", "room for tokens", "binds", "layout"}};
    auto layouts = std::vector<std::string>{};
    for (const auto& one : std::span(best).first(std::min(answer.count, best.size()))) {
        layouts.push_back(to_string(one.layout));
        rows.push_back({ms_text(one.decode.low, one.decode.high),
                        rate_text(static_cast<double>(answer.job.batch), one.decode),
                        ms_text(one.prefill.low, one.prefill.high), gib_text(one.memory.estimate),
                        std::to_string(one.memory.tokens), std::string(longest(one.decode).name),
                        layouts.back()});
    }
    const auto text = table(rows, 0, 2);
    if (fits(text)) return output.write(text);
    for (auto& row : rows) row.pop_back();
    print_with_lines(table(rows, 0, 1), layouts, output);
}

void print_pass(std::string_view title, const plan::Pass& pass, Output& output) {
    output.print("{}\n", folded_if_known(title));
    auto rows = std::vector<std::vector<std::string>>{};
    for (const auto& part : pass.parts) {
        const auto& text = text_of(part);
        rows.push_back({amount_text(part.amount) + std::string(text.unit),
                        ms_text(part.low, part.high) + " ms", std::string(part.name),
                        std::string(text.what)});
    }
    output.write(table(rows, 0, 2, 1));
}

void print_change(const plan::ServeAnswer& serve, Output& output) {
    if (const auto& change = serve.change)
        say(output, "fits: {}, with decode of {} ms", to_string(change->layout),
            ms_text(change->decode.low, change->decode.high));
    else
        say(output, "no layout fits; try --precision fp8, fewer or shorter requests, or more devices");
}

void print_explained_serving(const plan::Answer& answer, Output& output) {
    const auto& job = answer.job;
    const auto& [layout, memory, decode, prefill] = *answer.serve->explained;
    output.print("{}\n\n", to_string(layout));
    print_pass(
        fmt::format("decode, one token of {} requests: {} ms, {} tokens/s", job.batch,
                    ms_text(decode.low, decode.high), rate_text(static_cast<double>(job.batch), decode)),
        decode, output);
    print_pass(
        fmt::format("\nprefill, a prompt of {} tokens on each dp rank{}: {} ms, {} tokens/s", job.sequence,
                    layout.pp > 1 ? " and stage" : "", ms_text(prefill.low, prefill.high),
                    rate_text(static_cast<double>(job.sequence * layout.dp * layout.pp), prefill)),
        prefill, output);
    output.print("\nmemory {} GiB of {} on stage {}\n", gib_text(memory.estimate), gib_text(answer.capacity),
                 memory.stage);
    print_bytes({{memory.weights, "weights"},
                 {memory.cache, "KV cache"},
                 {memory.state, "state"},
                 {memory.activations, "activations"},
                 {memory.overhead, "overhead"}},
                output);
    if (answer.fits())
        return output.print("\n{}, with room for {} tokens; the requests have {}\n",
                            plan::to_string(answer.fit()), memory.tokens, job.batch * job.sequence);
    output.print("\n{}\n",
                 folded_if_known(fmt::format(
                     "does not fit: {} GiB too much; there is room for {} tokens, the requests have {}",
                     gib_text(memory.estimate - answer.capacity), memory.tokens, job.batch * job.sequence)));
    print_change(*answer.serve, output);
}

void print_found(const plan::Answer& answer, Output& output) {
    const auto& found = *answer.serve->found;
    if (found.best.empty()) {
        const auto& most = found.roomiest;
        if (most.memory.tokens == 0)
            say(output, "nothing fits: {} needs the least memory, {} of {} GiB", to_string(most.layout),
                gib_text(most.memory.estimate), gib_text(answer.capacity));
        else
            say(output, "nothing fits: {} has the most room, {} tokens; the requests have {}",
                to_string(most.layout), most.memory.tokens, answer.job.batch * answer.job.sequence);
        return print_change(*answer.serve, output);
    }
    print_serving_table(answer, output);
    output.write("\n");
    const auto& best = found.best.front();
    const auto& part = longest(best.decode);
    say(output, "binds: {} ({}) is {} % of decode's upper bound", part.name, text_of(part).what,
        percent_text(part.high / best.decode.high));
    if (const auto& most = found.roomiest; most.memory.tokens > best.memory.tokens)
        say(output, "most room: {}, {} tokens", to_string(most.layout), most.memory.tokens);
    say(output, "looked at: {} layouts, of which {} fit", found.layouts, found.best.size());
}

void print_serving(const plan::Answer& answer, Output& output) {
    answer.serve->explained ? print_explained_serving(answer, output) : print_found(answer, output);
    say(output,
        "ranges: a roofline. From all resources at once at the rates of the data sheet, to one after another "
        "at the rates that training sustains. No measured request is behind it; an engine that waits for its "
        "host is slower.");
}

void print_text(const plan::Answer& answer, Output& output) {
    const auto& job = answer.job;
    output.print("{}\n", folded_if_known(fmt::format(
                             "{} · {:.4g} B parameters · {} {} · {} {} x {} tokens · {}",
                             job.model.name.empty() ? "model" : job.model.name,
                             static_cast<double>(plan::parameters(job.model).total) / 1e9, job.devices,
                             job.machine.device.name, answer.serve ? "requests" : "batch", job.batch,
                             job.sequence, plan::to_string(job.weights.value_or(job.precision)))));
    if (job.model.kinds.size() > 1) say(output, "{}", plan::layers_text(job.model));
    for (const auto& one : answer.notes) say(output, "note: {}", one);
    for (const auto& one : answer.assumed) say(output, "assumed: {}", one);
    if (const auto& made = answer.calibration)
        say(output,
            "calibrated by {} measured steps: times are {:.3g} of the model's; "
            "mean error {} % before, {} % after{}",
            made->steps, made->factor, percent_text(made->before), percent_text(made->after),
            made->steps > 1 ? ", each by the others" : "");
    output.write("\n");
    if (answer.serve) {
        print_serving(answer, output);
    } else if (answer.explained) {
        print_explained(answer, output);
    } else if (answer.found->best.empty()) {
        print_nothing_fits(answer, output);
    } else {
        print_table(answer, output);
        output.write("\n");
        print_reasons(answer, output);
    }
    if (!answer.settings) return;
    output.print("\n{}\n", answer.settings->text);
    output.flush();
    for (const auto& note : answer.settings->notes) std::cerr << "# " << note << '\n';
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
        print_text(answer, output);
    return answer.fits() ? 0 : 1;
}

}  // namespace of_plan

Subcommand plan() {
    const auto arguments = std::make_shared<of_plan::Arguments>();
    auto& question = arguments->question;
    const auto narrow = std::vector<std::string>{"bf16", "fp8"};
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
             with_values(narrow, {"--precision", "weights and matrix products in bf16 or fp8; default: bf16",
                                  &question.precision, "TYPE"}),
             with_values(narrow, {"--compute", "matrix products in bf16 or fp8, instead of --precision",
                                  &question.compute, "TYPE"}),
             with_values({"bf16", "fp8", "int8", "nvfp4", "mxfp4", "int4"},
                         {"--weights", "with --serve: weights in this type; default: the checkpoint's",
                          &question.weights, "TYPE"}),
             with_values(narrow, {"--kv", "with --serve: KV cache in bf16 or fp8", &question.kv, "TYPE"}),
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
            "Exit status 1: no layout fits.",
        .unknown_option_hint = "; Megatron's flags, in one pair of quotes, stand at the end, after --"};
}

}  // namespace rankmesh::cli
