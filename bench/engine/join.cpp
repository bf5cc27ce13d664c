// SPDX-License-Identifier: Apache-2.0
// What join costs beside the ways to make the same communicators with MPI alone. Start with
// mpirun -n N, N even; a multiple of 8 has four axes, others two. Rank 0 reports.
#include <cstdio>
#include <memory>
#include <string>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/mpi.hpp>

#include "measure.hpp"

namespace {

using rankmesh::AxisSet;
using rankmesh::bench::Way;
using Comms = std::vector<MPI_Comm>;

/// Communicators of MPI's own for some sets of axes of a mesh.
class Bare {
public:
    Bare(const rankmesh::Mesh& mesh, const std::vector<AxisSet>& sets, int rank) {
        MPI_Comm_group(MPI_COMM_WORLD, &world_);
        for (auto set : sets) {
            all_.emplace_back();
            for (const auto& group : mesh.partition(set)) all_.back().push_back(list(group));
            const auto group = mesh.group(rank, set);
            keys_.push_back(*group.group_rank(rank));
            colours_.push_back(group[0]);
            auto ranks = list(group);
            if (ranks.size() > 1 && std::ranges::find(own_, ranks) == own_.end())
                own_.push_back(std::move(ranks));
        }
    }
    ~Bare() { MPI_Group_free(&world_); }
    Bare(const Bare&) = delete;
    Bare& operator=(const Bare&) = delete;

    /// By the members only, one for each distinct group of two or more, after a comparison of 32 bytes.
    Way create_group() {
        return {[this] {
                    std::int64_t same[4] = {};
                    MPI_Allreduce(MPI_IN_PLACE, same, 4, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
                    for (std::size_t i = 0; i < own_.size(); ++i) {
                        auto group = group_of(own_[i]);
                        MPI_Comm_create_group(MPI_COMM_WORLD, group, static_cast<int>(i),
                                              &made_.emplace_back());
                        MPI_Group_free(&group);
                    }
                },
                [this] { free(); }};
    }
    /// By all ranks, one split a set.
    Way split() {
        return {[this] {
                    for (std::size_t i = 0; i < colours_.size(); ++i)
                        MPI_Comm_split(MPI_COMM_WORLD, colours_[i], keys_[i], &made_.emplace_back());
                },
                [this] { free(); }};
    }
    /// By all ranks, one for every group of the world: how frameworks do it.
    Way create_all() {
        return {[this] {
                    for (const auto& groups : all_)
                        for (const auto& ranks : groups) {
                            auto group = group_of(ranks);
                            MPI_Comm_create(MPI_COMM_WORLD, group, &made_.emplace_back());
                            MPI_Group_free(&group);
                        }
                },
                [this] { free(); }};
    }

private:
    static std::vector<int> list(const rankmesh::Group& group) {
        auto ranks = std::vector<int>{};
        for (int i = 0; i < group.size(); ++i) ranks.push_back(group[i]);
        return ranks;
    }
    MPI_Group group_of(const std::vector<int>& ranks) const {
        auto group = MPI_Group{};
        MPI_Group_incl(world_, static_cast<int>(ranks.size()), ranks.data(), &group);
        return group;
    }
    void free() {
        for (auto& comm : made_)
            if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
        made_.clear();
    }

    MPI_Group world_ = MPI_GROUP_NULL;
    std::vector<std::vector<std::vector<int>>> all_;  // by set, every group of the world
    std::vector<std::vector<int>> own_;               // this rank's, without repeats
    std::vector<int> keys_, colours_;                 // by set
    Comms made_;
};

void compare(rankmesh::World& world, bool pairs, int rounds) {
    const auto spec = rankmesh::MeshSpec::parse(world.size() % 8 == 0 ? "pp=2 dp=* cp=2 tp=2" : "dp=* tp=2");
    const auto mesh = spec.resolve(world.size());
    auto sets = std::vector<AxisSet>{};
    auto declaration = rankmesh::Declaration{};
    for (int a = 0; a < mesh.axis_count(); ++a) sets.push_back(mesh.axes(rankmesh::AxisId{a}));
    for (int a = 0; a < mesh.axis_count() && pairs; ++a)
        for (int b = a + 1; b < mesh.axis_count(); ++b) {
            const auto x = mesh.name(rankmesh::AxisId{a});
            const auto y = mesh.name(rankmesh::AxisId{b});
            sets.push_back(mesh.axes(x, y));
            declaration.over.push_back({x, y});
        }
    auto bare = Bare(mesh, sets, world.rank());
    auto member = std::unique_ptr<rankmesh::Member>{};
    const auto ours = Way{[&] { member = std::make_unique<rankmesh::Member>(world.join(spec, declaration)); },
                          [&] { member.reset(); }};
    const auto by_round =
        rankmesh::bench::times_of({bare.create_group(), ours, bare.create_group(), bare.split()}, rounds);
    const auto times = rankmesh::bench::medians(by_round);
    const auto all = rankmesh::bench::medians({bare.create_all()}, rankmesh::bench::rounds_of(3));
    if (world.rank() == 0)
        rankmesh::bench::keep_samples(
            rankmesh::detail::cat("join on MPI, ", pairs ? "axes and pairs of axes/" : "axes/", world.size()),
            {by_round[1], by_round[0], by_round[2]});
    const auto base = (times[0] + times[2]) / 2;
    if (world.rank() == 0)
        std::printf("%6zu %12.2f ms %9.2f %12.2f %16.2f %19.2f\n", sets.size(), base, times[1] / base,
                    std::max(times[0], times[2]) / std::min(times[0], times[2]), times[3] / base,
                    all[0] / base);
}

}  // namespace

int main(int argc, char** argv) {
    auto world = rankmesh::mpi::World(argc, argv);
    if (world.size() % 2 != 0) {
        if (world.rank() == 0) std::puts("start it on an even number of ranks");
        return 2;
    }
    if (world.rank() == 0)
        std::printf(
            "%d ranks: times beside MPI_Comm_create_group by the members and a comparison of 32 bytes\n"
            "  sets   create_group      join  (the same again)   Comm_split   Comm_create, all\n",
            world.size());
    const auto rounds = rankmesh::bench::rounds_of(std::clamp(800 / world.size(), 11, 101));
    compare(world, false, rounds);
    compare(world, true, rounds);
    return 0;
}
