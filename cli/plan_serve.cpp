// SPDX-License-Identifier: Apache-2.0
// The output of `plan --serve`.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "plan_output.hpp"

namespace rankmesh::cli {

namespace of_plan_serve {

struct PartText {
    std::string_view name;
    std::string_view unit;
    std::string_view what;
};
constexpr auto parts = std::array<PartText, 6>{{{"compute", "flop", "matrix products, attention"},
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
    return *std::ranges::find(parts, part.name, &PartText::name);
}

void print_table(const plan::Answer& answer, Output& output) {
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
    const auto width = known_width();
    if (!width || width_of(text) <= static_cast<std::size_t>(*width)) return output.write(text);
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
        print_folded(fmt::format("fits: {}, with decode of {} ms", to_string(change->layout),
                                 ms_text(change->decode.low, change->decode.high)),
                     output);
    else
        print_folded("no layout fits; try --precision fp8, fewer or shorter requests, or more devices",
                     output);
}

void print_explained(const plan::Answer& answer, Output& output) {
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
    if (answer.fits()) {
        output.print("\n{}, with room for {} tokens; the requests have {}\n", plan::to_string(answer.fit()),
                     memory.tokens, job.batch * job.sequence);
        return;
    }
    output.print("\n{}\n",
                 folded_if_known(fmt::format(
                     "does not fit: {} GiB too much; there is room for {} tokens, the requests have {}",
                     gib_text(memory.estimate - answer.capacity), memory.tokens, job.batch * job.sequence)));
    print_change(*answer.serve, output);
}

void print_found(const plan::Answer& answer, Output& output) {
    const auto say = [&](const std::string& text) { print_folded(text, output); };
    const auto& found = *answer.serve->found;
    if (found.best.empty()) {
        const auto& most = found.roomiest;
        say(most.memory.tokens == 0
                ? fmt::format("nothing fits: {} needs the least memory, {} of {} GiB", to_string(most.layout),
                              gib_text(most.memory.estimate), gib_text(answer.capacity))
                : fmt::format("nothing fits: {} has the most room, {} tokens; the requests have {}",
                              to_string(most.layout), most.memory.tokens,
                              answer.job.batch * answer.job.sequence));
        return print_change(*answer.serve, output);
    }
    print_table(answer, output);
    output.write("\n");
    const auto& best = found.best.front();
    const auto& part = longest(best.decode);
    say(fmt::format("binds: {} ({}) is {} % of decode's upper bound", part.name, text_of(part).what,
                    percent_text(part.high / best.decode.high)));
    if (const auto& most = found.roomiest; most.memory.tokens > best.memory.tokens)
        say(fmt::format("most room: {}, {} tokens", to_string(most.layout), most.memory.tokens));
    say(fmt::format("looked at: {} layouts, of which {} fit", found.layouts, found.best.size()));
}

}  // namespace of_plan_serve

void print_serving(const plan::Answer& answer, Output& output) {
    using namespace of_plan_serve;
    answer.serve->explained ? print_explained(answer, output) : print_found(answer, output);
    print_folded(
        "ranges: a roofline. From all resources at once at the rates of the data sheet, to one after another "
        "at the rates that training sustains. No measured request is behind it; an engine that waits for its "
        "host is slower.",
        output);
}

}  // namespace rankmesh::cli
