// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/search.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/plan/text.hpp>

#include "plan/bounds.hpp"
#include "plan/names.hpp"

namespace rankmesh::plan {

using detail::cat;
using detail::in_quotes;

namespace of_search {

struct Name {
    std::string_view name;
    Range Options::*range;
};

constexpr auto names = std::array<Name, 8>{{{"tp", &Options::tp},
                                            {"cp", &Options::cp},
                                            {"ep", &Options::ep},
                                            {"pp", &Options::pp},
                                            {"vpp", &Options::vpp},
                                            {"dp", &Options::dp},
                                            {"zero", &Options::zero},
                                            {"mbs", &Options::micro_batch}}};

/// The settings of `Options::base`.
constexpr auto kept = std::array<std::string_view, 8>{"etp",   "schedule", "overlap", "dispatch",
                                                      "grads", "moments",  "acts",    "offload"};
bool is_kept(std::string_view name) { return std::ranges::find(kept, name) != kept.end(); }

/// Reads `tp=8`. `others` lists the settings without a range, for the error.
std::pair<Range Options::*, int> setting_of(std::string_view text,
                                            const std::vector<std::string_view>& others) {
    const auto equals = std::min(text.find('='), text.size());
    const auto name = text.substr(0, equals);
    const auto value = text.substr(std::min(equals + 1, text.size()));
    const auto known = std::ranges::find(names, name, &Name::name);
    if (known == names.end()) {
        auto words = std::vector<std::string_view>{};
        for (const auto& one : names) words.push_back(one.name);
        words.insert(words.end(), others.begin(), others.end());
        throw UsageError(cat(in_quotes(text), " is not a setting with its value, such as tp=8",
                             did_you_mean(name, words), "; settings are ",
                             detail::listed({words.begin(), words.end()})));
    }
    const auto number = detail::number_in(value);
    if (!number || *number < (name == "zero" ? 0 : 1) || (name == "zero" && *number > 3))
        throw UsageError(cat(in_quotes(text), " is not legal; ", name, " must be ",
                             name == "zero" ? "0, 1, 2 or 3" : "a whole number of 1 or more"));
    return {known->range, *number};
}

/// The largest batch of a job that `check` accepts.
constexpr auto most_batch = std::int64_t{1} << 40;

/// All layouts on one mesh, and their common values.
struct Family {
    Layout mesh = {};     // tp, cp, ep, pp and dp
    double bound = 0;     // lower bound of the seconds of its layouts
    std::size_t set = 0;  // index of its PieceSet
};

/// The pieces of all layouts with the same tp, cp and ep, by micro-batch and recomputation.
using PieceSet = std::vector<std::array<std::optional<Pieces>, 5>>;

class Search {
public:
    Search(const Job& job, const Options& options)
        : job_(job),
          options_(options),
          steps_(job),
          capacity_(options.capacity > 0 ? options.capacity : capacity(job.machine.device)),
          micro_batches_(divisors(job.batch)) {}

    Found run() {
        add_families();
        std::ranges::stable_sort(families_, {}, &Family::bound);
        auto done = std::size_t{0};
        const auto all = families_.size() * (options_.uneven ? 2 : 1);
        for (const auto uneven : {false, true}) {
            if (uneven && !options_.uneven) break;
            for (const auto& family : families_) {
                if (options_.progress) options_.progress(done, all);
                ++done;
                const auto most = cutoff(family);
                if (family.bound >= most) continue;
                look_at(family, uneven);
            }
        }
        if (found_.best.empty()) find_smallest();
        return std::move(found_);
    }

private:
    /// Calls `each(mesh)` for all axis sizes within the options that are legal with some batch.
    template <class Each>
    void each_mesh(const Each& each) const {
        const auto& model = job_.model;
        const auto n = job_.devices;
        for (const auto tp : divisors(n)) {
            if (!options_.tp.has(tp) || !legal_tp(model, tp)) continue;
            const auto shares = options_.sequence_parallel.value_or(tp > 1);
            for (const auto cp : divisors(n / tp)) {
                if (!options_.cp.has(cp) || !legal_cp(job_.sequence, tp, cp, shares)) continue;
                for (const auto pp : divisors(n / tp / cp)) {
                    if (pp > model.layers()) break;
                    const auto dp = n / tp / cp / pp;
                    if (!options_.pp.has(pp) || !options_.dp.has(dp)) continue;
                    for (const auto ep : divisors(std::max(1, model.experts()))) {
                        if (!options_.ep.has(ep) || !legal_ep(model, tp, cp, dp, ep)) continue;
                        if (std::int64_t{tp} * cp * dp % (std::int64_t{ep} * options_.base.etp) != 0)
                            continue;
                        auto mesh = options_.base;
                        mesh.tp = tp, mesh.cp = cp, mesh.ep = ep, mesh.pp = pp, mesh.dp = dp;
                        mesh.overlap_experts = options_.base.overlap_experts && ep > 1;
                        mesh.dispatch_once = options_.base.dispatch_once && ep > 1;
                        mesh.sequence_parallel = shares;
                        mesh.zero_group = options_.zero_group;
                        each(mesh);
                    }
                }
            }
        }
    }

    void add_families() {
        auto sets = std::map<std::tuple<int, int, int>, std::size_t>{};
        each_mesh([&](const Layout& mesh) {
            if (job_.batch % mesh.dp != 0) return;
            const auto [set, fresh] = sets.try_emplace({mesh.tp, mesh.cp, mesh.ep}, pieces_.size());
            if (fresh) pieces_.emplace_back(micro_batches_.size());
            auto family = Family{.mesh = mesh, .set = set->second};
            if (set_bound(family)) families_.push_back(family);
        });
        found_.meshes = static_cast<std::int64_t>(families_.size());
        if (families_.empty()) refuse();
    }

    static bool is_other_schedule(const Options& options) {
        return options.base.schedule != Schedule::one_f_one_b;
    }
    bool is_other_schedule() const { return is_other_schedule(options_); }

    /// Returns a lower bound of the seconds; 0 for schedules whose bubble the bound does not know.
    double bound_of(const Family& family, const Pieces& of, int vpp, std::int64_t count, bool partial) const {
        return is_other_schedule() ? 0 : lower_bound(of, job_, family.mesh.pp, vpp, count, partial);
    }

    /// A batch, and a layout that is legal with it.
    struct Larger {
        std::int64_t batch = most_batch + 1;
        Layout layout = {};
    };

    /// Returns the smallest batch above the job's that has a layout; nullopt if no batch has one.
    std::optional<Larger> larger_batch() const {
        auto best = Larger{};
        const auto micro = std::max(1, options_.micro_batch.least);
        if (!options_.micro_batch.has(micro)) return std::nullopt;
        each_mesh([&](Layout layout) {
            layout.micro_batch = micro;
            const auto share = std::int64_t{layout.dp} * micro;
            if (share > most_batch) return;
            auto count = job_.batch / share + 1;
            if (options_.base.schedule == Schedule::dual_pipe)
                count = std::max(count, 2 * std::int64_t{layout.pp});
            // Chunks take a multiple of pp micro-batches, DualPipe an even number.
            for (const auto end = count + 2 * std::int64_t{layout.pp}; count < end; ++count) {
                if (share * count >= best.batch) return;
                if (legal_schedule(options_.base.schedule, layout.pp, count) && set_vpp(layout, count))
                    best = {share * count, layout};
            }
        });
        return best.batch > most_batch ? std::nullopt : std::optional(best);
    }

    /// Gives a layout the smallest legal number of chunks. Returns false if there is none.
    bool set_vpp(Layout& layout, std::int64_t micro_batches) const {
        auto found = false;
        const auto set = [&](int vpp, Ends ends) {
            if (std::exchange(found, true)) return;
            layout.vpp = vpp, layout.first_layers = ends.first, layout.last_layers = ends.last;
        };
        each_vpp(layout.pp, micro_batches, [&](int vpp) { set(vpp, {}); });
        if (!found)
            each_uneven_vpp(layout.pp, micro_batches,
                            [&](int vpp, const std::vector<Ends>& all) { set(vpp, all.front()); });
        return found;
    }

    /// Throws UsageError that says why no layout is valid.
    [[noreturn]] void refuse() const {
        const auto what = cat("no layout of ", detail::counted(job_.devices, "device"), " is legal");
        if (const auto larger = larger_batch())
            throw UsageError(cat(what, " with a batch of ", detail::counted(job_.batch, "sequence"),
                                 ", but a batch of ", larger->batch, " has one; the layout ",
                                 to_string(larger->layout), " ", fault_of(larger->layout, job_.batch)));
        const auto needed = needed_settings();
        auto words = std::vector<std::string>{};
        const auto add = [&](const auto&... parts) { words.push_back(cat(parts...)); };
        auto all_fixed = true;
        for (const auto& [name, range] : names) {
            const auto [least, most] = needed.*range;
            if (needed.*range == Range{}) continue;
            all_fixed = all_fixed && least == most;
            if (least == most)
                add(name, "=", least);
            else
                add(name, least > most ? cat(" from ", least) : "", least > most ? " to " : " up to ", most);
        }
        if (needed.base.etp > 1) add("etp=", needed.base.etp);
        if (is_other_schedule(needed)) add("schedule=", name_of(needed.base.schedule));
        if (words.empty()) add("a batch of ", job_.batch);
        const auto with = detail::listed(words);
        const auto fault = all_fixed ? fault_of_fixed(needed, with) : std::string{};
        if (!fault.empty()) throw UsageError(cat(what, fault));
        throw UsageError(cat(what, " with ", with, ": tp must divide the ", job_.model.most(&Layer::heads),
                             " heads and cp the ", job_.sequence, " tokens, pp is at most the ",
                             job_.model.layers(), " layers, and tp*cp*pp*dp is the number of devices"));
    }

    /// Returns the options without the settings that are not needed for having no layout.
    Options needed_settings() const {
        auto needed = options_;
        const auto drop = [&](auto& setting, auto value) {
            std::swap(setting, value);
            if (Search(job_, needed).larger_batch()) std::swap(setting, value);
        };
        for (const auto& one : names) drop(needed.*one.range, Range{});
        drop(needed.base.etp, 1);
        drop(needed.base.schedule, Schedule::one_f_one_b);
        return needed;
    }

    /// Returns what `check` says of a layout behind `the layout `; "" for a legal layout.
    std::string fault_of(const Layout& layout, std::int64_t batch) const {
        try {
            check(layout, job_.model, batch, job_.sequence);
            return "";
        } catch (const UsageError& error) {
            return error.what() + std::string_view("the layout ").size();
        }
    }

    /// Returns why the fixed settings, named `with`, have no layout; "" if their smallest layout is legal.
    std::string fault_of_fixed(const Options& fixed, const std::string& with) const {
        auto layout = fixed.base;
        const auto set = [&](Range Options::*range, int Layout::*size) {
            if ((fixed.*range).least > 0) layout.*size = (fixed.*range).least;
        };
        set(&Options::tp, &Layout::tp), set(&Options::cp, &Layout::cp), set(&Options::pp, &Layout::pp);
        set(&Options::dp, &Layout::dp), set(&Options::ep, &Layout::ep), set(&Options::vpp, &Layout::vpp);
        const auto others = std::int64_t{layout.tp} * layout.cp;
        auto devices = std::int64_t{job_.devices};
        for (const auto size : {layout.tp, layout.cp, layout.pp, layout.dp}) {
            if (devices % size != 0)
                return cat(": ", with.find(" and ") == std::string::npos ? "" : "the product of ", with,
                           " does not divide the ", job_.devices, " devices");
            devices /= size;
        }
        layout.sequence_parallel = layout.tp > 1;
        const auto has_free_stages = fixed.pp.least == 0 && (layout.vpp > 1 || is_other_schedule(fixed));
        if (has_free_stages)
            for (const auto pp : divisors(job_.devices / others))
                if (layout.pp == 1 && pp <= job_.model.layers()) layout.pp = pp;
        layout.dp = static_cast<int>(job_.devices / others / layout.pp);
        const auto fault = fault_of(layout, std::int64_t{2} * job_.devices * layout.micro_batch);
        if (fault.empty()) return "";
        return has_free_stages ? cat(" with ", with, "; one of pp=", layout.pp, " ", fault)
                               : cat(": each ", fault);
    }

    const Pieces& pieces(const Family& family, std::size_t micro, Recompute recompute) {
        auto& kept = pieces_[family.set][micro][static_cast<std::size_t>(recompute)];
        if (!kept) {
            auto layout = family.mesh;
            layout.micro_batch = micro_batches_[micro];
            layout.recompute = recompute;
            kept = steps_.pieces(layout);
        }
        return *kept;
    }

    /// Calls `each(index of the micro-batch, micro-batches of a step)`.
    template <class Each>
    void each_micro_batch(const Family& family, const Each& each) const {
        const auto sequences = job_.batch / family.mesh.dp;
        for (std::size_t i = 0; i < micro_batches_.size(); ++i)
            if (const auto count = sequences / micro_batches_[i];
                count > 0 && sequences % micro_batches_[i] == 0 &&
                options_.micro_batch.has(micro_batches_[i]) &&
                legal_schedule(options_.base.schedule, family.mesh.pp, count))
                each(i, count);
    }

    /// Calls `each(vpp)` for all numbers of chunks of even stages.
    template <class Each>
    void each_vpp(int pp, std::int64_t micro_batches, const Each& each) const {
        for (int vpp = 1; vpp <= (is_other_schedule() ? 1 : job_.model.layers() / pp); ++vpp)
            if (options_.vpp.has(vpp) && legal_vpp(job_.model, pp, vpp, micro_batches)) each(vpp);
    }

    /// Calls `each(vpp, ends)` for all numbers of chunks, above 1, that uneven stages may have.
    template <class Each>
    void each_uneven_vpp(int pp, std::int64_t micro_batches, const Each& each) const {
        if (!options_.uneven || pp == 1 || micro_batches % pp != 0 || is_other_schedule()) return;
        for (int vpp = 2; vpp <= (job_.model.layers() + 2) / pp; ++vpp) {
            if (!options_.vpp.has(vpp)) continue;
            if (const auto ends = interleaved_ends(job_.model.layers(), pp, vpp); !ends.empty())
                each(vpp, ends);
        }
    }

    template <class Each>
    void each_zero(const Each& each) const {
        for (int zero = 0; zero <= 3; ++zero)
            if (options_.zero.has(zero)) each(zero);
    }

    /// Returns false if the mesh has no layout.
    bool set_bound(Family& family) {
        auto any = false;
        family.bound = std::numeric_limits<double>::infinity();
        each_micro_batch(family, [&](std::size_t micro, std::int64_t count) {
            const auto bound = [&](int vpp) {
                for (const auto kind : options_.recompute) {
                    any = true;
                    const auto partial = kind == Recompute::full && options_.some_layers;
                    family.bound = std::min(
                        family.bound, bound_of(family, pieces(family, micro, kind), vpp, count, partial));
                }
            };
            each_vpp(family.mesh.pp, count, [&](int vpp) {
                bound(vpp);
                each_zero(
                    [&](int) { found_.layouts += static_cast<std::int64_t>(options_.recompute.size()); });
            });
            each_uneven_vpp(family.mesh.pp, count, [&](int vpp, const auto&) { bound(vpp); });
        });
        return any;
    }

    /// Returns the seconds from which on a layout of the family cannot change the result.
    double cutoff(const Family& family) const {
        for (const auto& one : found_.best)
            if (same_mesh(one.layout, family.mesh)) return one.step.seconds;
        return found_.best.size() < options_.count ? std::numeric_limits<double>::infinity()
                                                   : found_.best.back().step.seconds;
    }

    static bool same_mesh(const Layout& a, const Layout& b) {
        return a.tp == b.tp && a.cp == b.cp && a.ep == b.ep && a.pp == b.pp && a.dp == b.dp;
    }

    void keep(const Planned& planned) {
        auto& best = found_.best;
        std::erase_if(best, [&](const Planned& one) { return same_mesh(one.layout, planned.layout); });
        const auto at = std::ranges::upper_bound(best, planned.step.seconds, {},
                                                 [](const Planned& one) { return one.step.seconds; });
        best.insert(at, planned);
        if (best.size() > options_.count) best.pop_back();
    }

    bool is_fast(const Family& family, const Layout& layout, const Pieces& of) {
        ++found_.evaluated;
        step_ = steps_.step(of, layout);
        return step_.seconds < cutoff(family);
    }

    /// Returns a stage that does not fit; nullopt if all fit.
    std::optional<int> too_large(const Layout& layout) {
        memory_ = plan::memory(job_, layout);
        return memory_.estimate <= capacity_ ? std::nullopt : std::optional(memory_.stage);
    }

    /// Keeps a layout if it is fast enough and fits. Returns a stage that does not fit, if one was found.
    std::optional<int> consider(const Family& family, Layout layout, const Pieces& of) {
        if (options_.allows && !options_.allows(layout)) return std::nullopt;
        const auto partial = layout.recompute == Recompute::full && options_.some_layers;
        if (partial) return consider_layers(family, layout, of);
        if (!is_fast(family, layout, of)) return std::nullopt;
        if (const auto stage = too_large(layout)) return stage;
        keep({layout, step_, memory_});
        return std::nullopt;
    }

    /// Considers all numbers of recomputed layers. The smallest number that fits is the fastest.
    std::optional<int> consider_layers(const Family& family, Layout layout, const Pieces& of) {
        const auto largest = most_layers(layout, job_.model.layers());
        layout.recompute_layers = largest > 1 ? 1 : 0;
        if (!is_fast(family, layout, of)) return std::nullopt;
        layout.recompute_layers = 0;
        if (const auto stage = too_large(layout)) return stage;
        auto low = 0;  // a number of layers that does not fit
        auto high = largest;
        while (high - low > 1) {
            const auto middle = low + (high - low) / 2;
            layout.recompute_layers = middle;
            (too_large(layout) ? low : high) = middle;
        }
        for (; high < largest; ++high) {
            layout.recompute_layers = high;
            if (!options_.allows || options_.allows(layout)) break;
        }
        if (high == largest) layout.recompute_layers = 0;
        if (!is_fast(family, layout, of)) return std::nullopt;
        static_cast<void>(too_large(layout));
        keep({layout, step_, memory_});
        return std::nullopt;
    }

    void look_at(const Family& family, bool uneven) {
        each_micro_batch(family, [&](std::size_t micro, std::int64_t count) {
            // Calls `each(layout, pieces, partial)` for all kinds of recomputation and stages of ZeRO;
            // `partial`: layouts that recompute only some layers count as well.
            const auto each_kind = [&](int vpp, const auto& each) {
                for (const auto kind : options_.recompute) {
                    const auto& of = pieces(family, micro, kind);
                    const auto partial = kind == Recompute::full && options_.some_layers;
                    if (bound_of(family, of, vpp, count, partial) >= cutoff(family)) continue;
                    auto layout = family.mesh;
                    layout.micro_batch = micro_batches_[micro];
                    layout.vpp = vpp;
                    layout.recompute = kind;
                    each_zero([&](int zero) {
                        layout.zero = zero;
                        each(layout, of, partial);
                    });
                }
            };
            if (!uneven) {
                each_vpp(family.mesh.pp, count, [&](int vpp) {
                    each_kind(vpp, [&](const Layout& layout, const Pieces& of, bool) {
                        static_cast<void>(consider(family, layout, of));
                    });
                });
                return;
            }
            if (family.mesh.pp > 1 && options_.vpp.has(1) && !is_other_schedule())
                each_kind(1, [&](const Layout& layout, const Pieces& of, bool partial) {
                    look_at_uneven(family, layout, of, count, partial);
                });
            each_uneven_vpp(family.mesh.pp, count, [&](int vpp, const std::vector<Ends>& all) {
                each_kind(vpp, [&](Layout layout, const Pieces& of, bool partial) {
                    for (const auto& ends : all) {
                        layout.first_layers = ends.first;
                        layout.last_layers = ends.last;
                        if (split_bound(of, job_, layout, count, partial) < cutoff(family))
                            static_cast<void>(consider(family, layout, of));
                    }
                });
            });
        });
    }

    void look_at_uneven(const Family& family, Layout layout, const Pieces& of, std::int64_t count,
                        bool partial) {
        const auto pp = layout.pp;
        const auto layers = job_.model.layers();
        auto range = splits(of, job_, pp, count, partial, cutoff(family));
        for (int first = 1; first <= range.first_most; ++first) {
            const auto least = std::max(1, pp == 2 ? layers - first : range.both_least - first);
            for (int last = least; last <= std::min(range.last_most, layers - first - (pp - 2)); ++last) {
                layout.first_layers = first;
                layout.last_layers = last;
                if (split_bound(of, job_, layout, count, partial) >= cutoff(family)) continue;
                const auto full = consider(family, layout, of);
                // The memory of the first stage grows only with its layers; likewise the last stage. The
                // memory of the middle stages grows with their layers if all layers are of one kind.
                if (!full) continue;
                if (*full == 0) return;
                if (*full == pp - 1) range.last_most = last - 1;
                if (*full > 0 && *full < pp - 1 && job_.model.kinds.size() == 1)
                    range.both_least = std::max(range.both_least, first + last + 1);
            }
        }
    }

    void find_smallest() {
        for (const auto& family : families_)
            each_micro_batch(family, [&](std::size_t micro, std::int64_t count) {
                each_vpp(family.mesh.pp, count, [&](int vpp) {
                    for (const auto kind : options_.recompute)
                        each_zero([&](int zero) {
                            auto layout = family.mesh;
                            layout.micro_batch = micro_batches_[micro];
                            layout.vpp = vpp;
                            layout.recompute = kind;
                            layout.zero = zero;
                            if (options_.allows && !options_.allows(layout)) return;
                            const auto memory = plan::memory(job_, layout);
                            auto& least = found_.smallest;
                            if (!least || memory.estimate < least->memory.estimate)
                                least =
                                    Planned{layout, steps_.step(pieces(family, micro, kind), layout), memory};
                        });
                });
            });
    }

    const Job& job_;
    const Options& options_;
    Steps steps_;
    std::int64_t capacity_;
    std::vector<int> micro_batches_;
    std::vector<Family> families_;
    std::vector<PieceSet> pieces_;
    Found found_;
    Step step_;      // of the last considered layout
    Memory memory_;  // the same
};

}  // namespace of_search

void fix(Options& options, std::string_view text) {
    if (text == "sp=0" || text == "sp=1") {
        options.sequence_parallel = text == "sp=1";
        return;
    }
    if (text.starts_with("recompute=")) {
        const auto layout = read_layout(text);
        if (layout.recompute_layers > 0)
            throw UsageError(cat(in_quotes(text),
                                 " cannot be fixed; the search finds the number of layers to compute again, "
                                 "so fix recompute=full"));
        options.recompute = {layout.recompute};
        return;
    }
    if (of_search::is_kept(text.substr(0, text.find('=')))) {
        const auto one = read_layout(text);
        auto& base = options.base;
        if (one.etp > 1) base.etp = one.etp;
        if (one.schedule != Schedule::one_f_one_b) base.schedule = one.schedule;
        if (one.overlap_experts) base.overlap_experts = true;
        if (one.dispatch_once) base.dispatch_once = true;
        if (one.gradient_bytes > 0) base.gradient_bytes = one.gradient_bytes;
        if (one.bf16_moments) base.bf16_moments = true;
        if (one.fp8_activations) base.fp8_activations = true;
        if (one.offload > 0) base.offload = one.offload;
        return;
    }
    auto others = std::vector<std::string_view>{"recompute", "sp"};
    others.insert(others.end(), of_search::kept.begin(), of_search::kept.end());
    const auto [range, value] = of_search::setting_of(text, others);
    options.*range = {value, value};
}

void limit(Options& options, std::string_view text) {
    const auto [range, value] = of_search::setting_of(text, {});
    (options.*range).most = value;
}

Found search(const Job& job, const Options& options) {
    check(job);
    check_settings(options.base, job.model);
    // A limit, because splits of layers are tried in pairs.
    constexpr auto most_layers = 4096;
    if (job.model.layers() > most_layers)
        throw UsageError(
            cat("the model has ", job.model.layers(), " layers; a search takes at most ", most_layers));
    return of_search::Search(job, options).run();
}

}  // namespace rankmesh::plan
