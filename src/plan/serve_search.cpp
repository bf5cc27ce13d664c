// SPDX-License-Identifier: Apache-2.0
// Evaluates all layouts of an inference engine on some devices.
#include <algorithm>

#include <rankmesh/plan/memory.hpp>
#include <rankmesh/plan/serve.hpp>

#include "plan/bounds.hpp"
#include "plan/settings.hpp"

namespace rankmesh::plan {

FoundServing serve_search(const Job& job, const std::vector<std::string>& fix,
                          const std::vector<std::string>& most) {
    check(job);
    // Fixed sizes and limits are layouts; 0 is open.
    auto fixed = ServeLayout{0, 0, 0, 0, 0}, limits = fixed;
    for (const auto& text : fix) read_word(text, fixed);
    for (const auto& text : most)
        if (read_word(text, limits).word == "cache")
            throw UsageError(cat(in_quotes(text), " is no limit; only sizes have one, such as tp=8"));
    auto found = FoundServing{};
    auto reason = std::string{};
    const auto consider = [&](const ServeLayout& layout) {
        for (const auto& one : settings_of(layout).all)
            if (const auto value = one.value(layout);
                one.words.empty() && ((one.value(fixed) > 0 && value != one.value(fixed)) ||
                                      (one.value(limits) > 0 && value > one.value(limits))))
                return;
        try {
            auto served = serve(job, layout);
            const auto& most_room = found.roomiest.memory;
            const auto is_better = served.memory.tokens == most_room.tokens
                                       ? served.memory.estimate < most_room.estimate
                                       : served.memory.tokens > most_room.tokens;
            if (++found.layouts == 1 || is_better) found.roomiest = served;
            if (served.memory.estimate <= serve_capacity(job.machine.device))
                found.best.push_back(std::move(served));
        } catch (const UsageError& error) {
            if (reason.empty()) reason = error.what();
        }
    };
    for (const auto pp : divisors(job.devices))
        for (const auto tp : divisors(job.devices / pp))
            for (const auto dcp : divisors(tp)) {
                const auto dp = job.devices / pp / tp;
                auto layout = ServeLayout{tp, pp, dp, 1, dcp, fixed.fp8_cache};
                consider(layout);
                layout.ep = tp * dp;
                if (layout.ep > 1) consider(layout);
            }
    if (found.layouts == 0 && reason.empty())
        throw UsageError(cat("no layout of ", counted(job.devices, "device"),
                             " has the fixed sizes within the limits; pp * tp * dp must be ", job.devices));
    if (found.layouts == 0)
        throw UsageError(cat("vLLM can run no layout of ", counted(job.devices, "device"),
                             " within these limits, such as: ", reason));
    const auto capacity = serve_capacity(job.machine.device);
    std::ranges::stable_sort(found.best, {}, [&](const Served& one) {
        return std::pair(fit(one.memory.estimate, capacity), one.decode.high);
    });
    return found;
}

}  // namespace rankmesh::plan
