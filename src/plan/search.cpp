// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/search.hpp>

#include <array>
#include <map>
#include <ranges>
#include <tuple>

#include "plan/bounds.hpp"
#include "plan/settings.hpp"

namespace rankmesh::plan {

namespace of_search {

/// Enumerates the legal layouts of a job. The job and the options must outlive this object.
class Candidates {
public:
    Candidates(const Job& job, const Options& options) : job_(job), options_(options) {}

    bool is_other_schedule() const { return options_.base.schedule != Schedule::one_f_one_b; }

    /// Calls `each(mesh)` for all axis sizes within the options that are legal with some batch.
    template <class Each>
    void each_mesh(const Each& each) const {
        const auto n = job_.devices;
        for (const auto tp : divisors(n))
            for (const auto cp : divisors(n / tp))
                for (const auto pp : divisors(n / tp / cp))
                    for (const auto ep : divisors(std::max(1, job_.model.experts()))) {
                        auto mesh = options_.base;
                        mesh.tp = tp, mesh.cp = cp, mesh.ep = ep, mesh.pp = pp, mesh.dp = n / tp / cp / pp;
                        mesh.overlap_experts = options_.base.overlap_experts && ep > 1;
                        mesh.dispatch_once = options_.base.dispatch_once && ep > 1;
                        mesh.sequence_parallel = options_.sequence_parallel.value_or(tp > 1);
                        mesh.zero_group = options_.zero_group;
                        if (options_.tp.has(tp) && options_.cp.has(cp) && options_.pp.has(pp) &&
                            options_.ep.has(ep) && options_.dp.has(mesh.dp) && is_legal(mesh))
                            each(mesh);
                    }
    }

    /// Calls `each(index of the micro-batch in `sizes`, micro-batches of a step)`.
    template <class Each>
    void each_micro_batch(const Layout& mesh, const std::vector<int>& sizes, const Each& each) const {
        const auto sequences = job_.batch / mesh.dp;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            if (const auto count = sequences / sizes[i];
                count > 0 && sequences % sizes[i] == 0 && options_.micro_batch.has(sizes[i]) &&
                legal_schedule(options_.base.schedule, mesh.pp, count))
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

private:
    bool is_legal(const Layout& mesh) const {
        // A multiple of 2 * pp micro-batches is legal with every schedule.
        const auto batch = 2 * std::int64_t{mesh.pp} * mesh.dp;
        return fault_of([&] { check(mesh, job_.model, batch, job_.sequence); }).empty();
    }

    const Job& job_;
    const Options& options_;
};

constexpr auto most_batch = std::int64_t{1} << 40;  // of a job

/// Returns what `check` says of a layout behind `the layout `; "" for a legal layout.
std::string fault_of(const Job& job, const Layout& layout, std::int64_t batch) {
    const auto fault = plan::fault_of([&] { check(layout, job.model, batch, job.sequence); });
    return fault.empty() ? fault : fault.substr(std::string_view("the layout ").size());
}

/// Returns the smallest batch above the job's that has a layout, and the layout; nullopt if no batch has one.
std::optional<std::pair<std::int64_t, Layout>> larger_batch(const Job& job, const Options& options) {
    auto best = std::optional<std::pair<std::int64_t, Layout>>{};
    const auto micro = std::max(1, options.micro_batch.least), vpp = std::max(1, options.vpp.least);
    if (!options.micro_batch.has(micro)) return best;
    Candidates(job, options).each_mesh([&](Layout layout) {
        layout.micro_batch = micro;
        layout.vpp = vpp;
        if (layout.pp > 1 && vpp > 1 && options.uneven &&
            job.model.layers() % (std::int64_t{layout.pp} * vpp) != 0)
            if (const auto ends = interleaved_ends(job.model.layers(), layout.pp, vpp); !ends.empty())
                layout.first_layers = ends.front().first, layout.last_layers = ends.front().last;
        const auto share = std::int64_t{layout.dp} * micro;
        auto count = job.batch / share + 1;
        if (options.base.schedule == Schedule::dual_pipe)
            count = std::max(count, 2 * std::int64_t{layout.pp});
        // Chunks take a multiple of pp micro-batches, DualPipe an even number.
        for (const auto end = count + 2 * std::int64_t{layout.pp}; count < end; ++count) {
            if (share * count > (best ? best->first - 1 : most_batch)) return;
            if ((vpp > 1 && count % layout.pp != 0) ||
                !legal_schedule(options.base.schedule, layout.pp, count))
                continue;
            if (fault_of(job, layout, share * count).empty()) best.emplace(share * count, layout);
            return;  // other faults do not depend on the batch
        }
    });
    return best;
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

/// Says why a job has no legal layout: the nearest batch that has one, or the settings that exclude all.
[[noreturn]] void refuse_all(const Job& job, const Options& options) {
    const auto what = cat("no layout of ", counted(job.devices, "device"), " is legal");
    if (const auto larger = larger_batch(job, options))
        throw UsageError(cat(what, " with a batch of ", counted(job.batch, "sequence"), ", but a batch of ",
                             larger->first, " has one; the layout ", to_string(larger->second), " ",
                             fault_of(job, larger->second, job.batch)));
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
    Search(const Job& job, const Options& options) : job_(job), options_(options) {}

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
    void add_families() {
        auto sets = std::map<std::tuple<int, int, int>, std::size_t>{};
        candidates_.each_mesh([&](const Layout& mesh) {
            if (job_.batch % mesh.dp != 0) return;
            const auto [set, fresh] = sets.try_emplace({mesh.tp, mesh.cp, mesh.ep}, pieces_.size());
            if (fresh) pieces_.emplace_back(micro_batches_.size());
            auto family = Family{.mesh = mesh, .set = set->second};
            if (set_bound(family)) families_.push_back(family);
        });
        found_.meshes = static_cast<std::int64_t>(families_.size());
        if (families_.empty()) refuse_all(job_, options_);
    }

    /// Returns a lower bound of the seconds; 0 for schedules whose bubble the bound does not know.
    double bound_of(const Family& family, const Pieces& of, int vpp, std::int64_t count, bool partial) const {
        return candidates_.is_other_schedule() ? 0
                                               : lower_bound(of, job_, family.mesh.pp, vpp, count, partial);
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

    /// Returns false if the mesh has no layout.
    bool set_bound(Family& family) {
        auto any = false;
        family.bound = std::numeric_limits<double>::infinity();
        candidates_.each_micro_batch(family.mesh, micro_batches_, [&](std::size_t micro, std::int64_t count) {
            const auto bound = [&](int vpp) {
                for (const auto kind : options_.recompute) {
                    any = true;
                    const auto partial = kind == Recompute::full && options_.some_layers;
                    family.bound = std::min(
                        family.bound, bound_of(family, pieces(family, micro, kind), vpp, count, partial));
                }
            };
            candidates_.each_vpp(family.mesh.pp, count, [&](int vpp) {
                bound(vpp);
                candidates_.each_zero(
                    [&](int) { found_.layouts += static_cast<std::int64_t>(options_.recompute.size()); });
            });
            candidates_.each_uneven_vpp(family.mesh.pp, count, [&](int vpp, const auto&) { bound(vpp); });
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
        auto high = *std::ranges::partition_point(std::views::iota(1, largest), [&](int layers) {
            layout.recompute_layers = layers;
            return too_large(layout).has_value();
        });
        for (; high < largest; ++high) {
            layout.recompute_layers = high;
            if (!options_.allows || options_.allows(layout)) break;
        }
        if (high == largest) layout.recompute_layers = 0;
        if (!is_fast(family, layout, of)) return std::nullopt;
        too_large(layout);
        keep({layout, step_, memory_});
        return std::nullopt;
    }

    /// Calls `each(layout, pieces, partial)` for all kinds of recomputation and stages of ZeRO; `partial`:
    /// layouts that recompute only some layers count as well.
    template <class Each>
    void each_kind(const Family& family, std::size_t micro, std::int64_t count, int vpp, const Each& each) {
        for (const auto kind : options_.recompute) {
            const auto& of = pieces(family, micro, kind);
            const auto partial = kind == Recompute::full && options_.some_layers;
            if (bound_of(family, of, vpp, count, partial) >= cutoff(family)) continue;
            auto layout = family.mesh;
            layout.micro_batch = micro_batches_[micro];
            layout.vpp = vpp;
            layout.recompute = kind;
            candidates_.each_zero([&](int zero) {
                layout.zero = zero;
                each(layout, of, partial);
            });
        }
    }

    /// Calls `each(layout, pieces, partial)` for the layouts with even stages.
    template <class Each>
    void each_even(const Family& family, const Each& each) {
        candidates_.each_micro_batch(family.mesh, micro_batches_, [&](std::size_t micro, std::int64_t count) {
            candidates_.each_vpp(family.mesh.pp, count,
                                 [&](int vpp) { each_kind(family, micro, count, vpp, each); });
        });
    }

    void look_at(const Family& family, bool uneven) {
        if (!uneven)
            return each_even(
                family, [&](const Layout& layout, const Pieces& of, bool) { consider(family, layout, of); });
        candidates_.each_micro_batch(family.mesh, micro_batches_, [&](std::size_t micro, std::int64_t count) {
            if (family.mesh.pp > 1 && options_.vpp.has(1) && !candidates_.is_other_schedule())
                each_kind(family, micro, count, 1, [&](const Layout& layout, const Pieces& of, bool partial) {
                    look_at_uneven(family, layout, of, count, partial);
                });
            candidates_.each_uneven_vpp(family.mesh.pp, count, [&](int vpp, const std::vector<Ends>& all) {
                each_kind(family, micro, count, vpp, [&](Layout layout, const Pieces& of, bool partial) {
                    for (const auto& ends : all) {
                        layout.first_layers = ends.first;
                        layout.last_layers = ends.last;
                        if (split_bound(of, job_, layout, count, partial) < cutoff(family))
                            consider(family, layout, of);
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
            each_even(family, [&](const Layout& layout, const Pieces& of, bool) {
                if (options_.allows && !options_.allows(layout)) return;
                const auto memory = plan::memory(job_, layout);
                auto& least = found_.smallest;
                if (!least || memory.estimate < least->memory.estimate)
                    least = Planned{layout, steps_.step(of, layout), memory};
            });
    }

    const Job& job_;
    const Options& options_;
    Candidates candidates_ = Candidates(job_, options_);
    Steps steps_ = Steps(job_);
    std::int64_t capacity_ = options_.capacity > 0 ? options_.capacity : capacity(job_.machine.device);
    std::vector<int> micro_batches_ = divisors(job_.batch);
    std::vector<Family> families_;
    std::vector<PieceSet> pieces_;
    Found found_;
    Step step_;      // of the last considered layout
    Memory memory_;  // the same
};

}  // namespace of_search

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
