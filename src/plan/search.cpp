// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/search.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "plan/candidates.hpp"

namespace rankmesh::plan {

namespace of_search {

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
          candidates_(job, options),
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
        candidates_.each_micro_batch(family.mesh, micro_batches_, [&](std::size_t micro, std::int64_t count) {
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
                    candidates_.each_zero([&](int zero) {
                        layout.zero = zero;
                        each(layout, of, partial);
                    });
                }
            };
            if (!uneven) {
                candidates_.each_vpp(family.mesh.pp, count, [&](int vpp) {
                    each_kind(vpp, [&](const Layout& layout, const Pieces& of, bool) {
                        static_cast<void>(consider(family, layout, of));
                    });
                });
                return;
            }
            if (family.mesh.pp > 1 && options_.vpp.has(1) && !candidates_.is_other_schedule())
                each_kind(1, [&](const Layout& layout, const Pieces& of, bool partial) {
                    look_at_uneven(family, layout, of, count, partial);
                });
            candidates_.each_uneven_vpp(family.mesh.pp, count, [&](int vpp, const std::vector<Ends>& all) {
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
            candidates_.each_micro_batch(
                family.mesh, micro_batches_, [&](std::size_t micro, std::int64_t count) {
                    candidates_.each_vpp(family.mesh.pp, count, [&](int vpp) {
                        for (const auto kind : options_.recompute)
                            candidates_.each_zero([&](int zero) {
                                auto layout = family.mesh;
                                layout.micro_batch = micro_batches_[micro];
                                layout.vpp = vpp;
                                layout.recompute = kind;
                                layout.zero = zero;
                                if (options_.allows && !options_.allows(layout)) return;
                                const auto memory = plan::memory(job_, layout);
                                auto& least = found_.smallest;
                                if (!least || memory.estimate < least->memory.estimate)
                                    least = Planned{layout, steps_.step(pieces(family, micro, kind), layout),
                                                    memory};
                            });
                    });
                });
    }

    const Job& job_;
    const Options& options_;
    Candidates candidates_;
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
