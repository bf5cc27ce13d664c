// SPDX-License-Identifier: Apache-2.0
// The layouts that a search compares: those that `check` and the options accept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <rankmesh/plan/search.hpp>

#include "plan/bounds.hpp"

namespace rankmesh::plan {

/// Enumerates the legal layouts of a job. The job and the options must outlive this object.
class Candidates {
public:
    Candidates(const Job& job, const Options& options) : job_(job), options_(options) {}

    bool is_other_schedule() const { return options_.base.schedule != Schedule::one_f_one_b; }

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
    const Job& job_;
    const Options& options_;
};

/// Throws UsageError that says why a job has no candidates.
[[noreturn]] void refuse_all(const Job& job, const Options& options);

}  // namespace rankmesh::plan
