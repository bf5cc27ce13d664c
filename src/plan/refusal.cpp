// SPDX-License-Identifier: Apache-2.0
// Says why a job has no legal layout: the nearest batch that has one, or the settings that exclude all.
#include <algorithm>
#include <utility>

#include "plan/candidates.hpp"
#include "plan/settings.hpp"

namespace rankmesh::plan {

namespace of_refusal {

/// The largest batch of a job that `check` accepts.
constexpr auto most_batch = std::int64_t{1} << 40;

/// A batch, and a layout that is legal with it.
struct Larger {
    std::int64_t batch = most_batch + 1;
    Layout layout = {};
};

/// Gives a layout the smallest legal number of chunks. Returns false if there is none.
bool set_vpp(const Candidates& candidates, Layout& layout, std::int64_t micro_batches) {
    auto found = false;
    const auto set = [&](int vpp, Ends ends) {
        if (std::exchange(found, true)) return;
        layout.vpp = vpp, layout.first_layers = ends.first, layout.last_layers = ends.last;
    };
    candidates.each_vpp(layout.pp, micro_batches, [&](int vpp) { set(vpp, {}); });
    if (!found)
        candidates.each_uneven_vpp(layout.pp, micro_batches,
                                   [&](int vpp, const std::vector<Ends>& all) { set(vpp, all.front()); });
    return found;
}

/// Returns the smallest batch above the job's that has a layout; nullopt if no batch has one.
std::optional<Larger> larger_batch(const Job& job, const Options& options) {
    auto best = Larger{};
    const auto candidates = Candidates(job, options);
    const auto micro = std::max(1, options.micro_batch.least);
    if (!options.micro_batch.has(micro)) return std::nullopt;
    candidates.each_mesh([&](Layout layout) {
        layout.micro_batch = micro;
        const auto share = std::int64_t{layout.dp} * micro;
        if (share > most_batch) return;
        auto count = job.batch / share + 1;
        if (options.base.schedule == Schedule::dual_pipe)
            count = std::max(count, 2 * std::int64_t{layout.pp});
        // Chunks take a multiple of pp micro-batches, DualPipe an even number.
        for (const auto end = count + 2 * std::int64_t{layout.pp}; count < end; ++count) {
            if (share * count >= best.batch) return;
            if (legal_schedule(options.base.schedule, layout.pp, count) && set_vpp(candidates, layout, count))
                best = {share * count, layout};
        }
    });
    return best.batch > most_batch ? std::nullopt : std::optional(best);
}

/// Returns the options without the settings that are not needed for having no layout.
Options needed_options(const Job& job, Options needed) {
    const auto drop = [&](auto& setting, auto value) {
        std::swap(setting, value);
        if (larger_batch(job, needed)) std::swap(setting, value);
    };
    for (const auto& one : settings_of(needed.base).all)
        if (one.range != nullptr) drop(needed.*one.range, Range{});
    drop(needed.base.etp, 1);
    drop(needed.base.schedule, Schedule::one_f_one_b);
    return needed;
}

/// Returns what `check` says of a layout behind `the layout `; "" for a legal layout.
std::string fault_of(const Job& job, const Layout& layout, std::int64_t batch) {
    try {
        check(layout, job.model, batch, job.sequence);
        return "";
    } catch (const UsageError& error) {
        return error.what() + std::string_view("the layout ").size();
    }
}

/// Returns why the fixed settings, named `with`, have no layout; "" if their smallest layout is legal.
std::string fault_of_fixed(const Job& job, const Options& fixed, const std::string& with) {
    auto layout = fixed.base;
    for (const auto& one : settings_of(layout).all)
        if (one.range != nullptr && (fixed.*one.range).least > 0) one.set(layout, (fixed.*one.range).least);
    const auto others = std::int64_t{layout.tp} * layout.cp;
    auto devices = std::int64_t{job.devices};
    for (const auto size : {layout.tp, layout.cp, layout.pp, layout.dp}) {
        if (devices % size != 0)
            return cat(": ", with.find(" and ") == std::string::npos ? "" : "the product of ", with,
                       " does not divide the ", job.devices, " devices");
        devices /= size;
    }
    layout.sequence_parallel = layout.tp > 1;
    const auto has_free_stages =
        fixed.pp.least == 0 && (layout.vpp > 1 || Candidates(job, fixed).is_other_schedule());
    if (has_free_stages)
        for (const auto pp : divisors(job.devices / others))
            if (layout.pp == 1 && pp <= job.model.layers()) layout.pp = pp;
    layout.dp = static_cast<int>(job.devices / others / layout.pp);
    const auto fault = fault_of(job, layout, std::int64_t{2} * job.devices * layout.micro_batch);
    if (fault.empty()) return "";
    return has_free_stages ? cat(" with ", with, "; one of pp=", layout.pp, " ", fault)
                           : cat(": each ", fault);
}

}  // namespace of_refusal

void refuse_all(const Job& job, const Options& options) {
    using namespace of_refusal;
    const auto what = cat("no layout of ", counted(job.devices, "device"), " is legal");
    if (const auto larger = larger_batch(job, options))
        throw UsageError(cat(what, " with a batch of ", counted(job.batch, "sequence"), ", but a batch of ",
                             larger->batch, " has one; the layout ", to_string(larger->layout), " ",
                             fault_of(job, larger->layout, job.batch)));
    const auto needed = needed_options(job, options);
    auto words = std::vector<std::string>{};
    const auto add = [&](const auto&... parts) { words.push_back(cat(parts...)); };
    auto all_fixed = true;
    for (const auto& one : settings_of(needed.base).all) {
        if (one.range == nullptr || needed.*one.range == Range{}) continue;
        const auto [least, most] = needed.*one.range;
        all_fixed = all_fixed && least == most;
        if (least == most)
            add(one.word, "=", least);
        else
            add(one.word, least > most ? cat(" from ", least) : "", least > most ? " to " : " up to ", most);
    }
    if (needed.base.etp > 1) add("etp=", needed.base.etp);
    if (needed.base.schedule != Schedule::one_f_one_b) add("schedule=", to_string(needed.base.schedule));
    if (words.empty()) add("a batch of ", job.batch);
    const auto with = detail::listed(words);
    const auto fault = all_fixed ? fault_of_fixed(job, needed, with) : std::string{};
    if (!fault.empty()) throw UsageError(cat(what, fault));
    throw UsageError(cat(what, " with ", with, ": tp must divide the ", job.model.most(&Layer::heads),
                         " heads and cp the ", job.sequence, " tokens, pp is at most the ",
                         job.model.layers(), " layers, and tp*cp*pp*dp is the number of devices"));
}

}  // namespace rankmesh::plan
