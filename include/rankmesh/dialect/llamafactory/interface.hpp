// SPDX-License-Identifier: Apache-2.0
// LlamaFactory's DistributedInterface.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/dialect/llamafactory/strategy.hpp>
#include <rankmesh/engine/member.hpp>

namespace rankmesh::llamafactory {

/// How all_reduce combines: a mean is a sum that is divided by the group's size.
enum class ReduceOp { sum, mean, max, min };

/// What the interface knows of one rank, under its names, without starting a process.
class RANKMESH_EXPORT RankInfo {
public:
    RankInfo(const Config& config, const Environment& environment);

    /// This rank's group along a dimension as a mesh of one axis; nothing where nothing is distributed.
    ///
    /// Throws dialect::Error without a dimension, as the original does.
    std::optional<Mesh> get_device_mesh(std::optional<Dim> dim) const;
    /// The ranks of this rank's group along a dimension; nothing for the world.
    std::optional<Group> get_group(std::optional<Dim> dim = {}) const;
    /// This rank's place in its group along a dimension, or in the world.
    int get_rank(std::optional<Dim> dim = {}) const;
    int get_world_size(std::optional<Dim> dim = {}) const;
    int get_local_rank() const { return environment_.local_rank; }
    int get_local_world_size() const { return environment_.local_world_size; }
    bool is_distributed() const { return environment_.is_distributed(); }

    const DistributedStrategy& strategy() const { return strategy_; }
    std::chrono::seconds timeout() const { return timeout_; }
    /// `DistributedInterface(strategy=DistributedStrategy(...)), is_distributed=True, ...`.
    std::string str() const;

private:
    const Mesh& mesh_of(Dim dim) const;

    Environment environment_;
    DistributedStrategy strategy_;
    Mesh model_mesh_;
    Mesh data_mesh_;
    std::chrono::seconds timeout_;
};

/// The same, live. In one process that is not distributed, data passes through unchanged.
class RANKMESH_EXPORT DistributedInterface : public RankInfo {
public:
    /// Of a member that was joined with `plan(config, world_size)`; throws UsageError for any other.
    DistributedInterface(const Member& member, const Config& config);
    /// Of a process that is not distributed.
    explicit DistributedInterface(const Config& config = {});

    /// The communicator along a dimension, or of the world; throws dialect::Error where nothing is
    /// distributed.
    Communicator& group(std::optional<Dim> dim = {}) const;

    /// The reduction of all members' data: of a number a number, of a list a list.
    double all_reduce(double value, ReduceOp op = ReduceOp::mean, std::optional<Dim> dim = Dim::dp) const {
        return all_reduce(std::vector{value}, op, dim).front();
    }
    template <class T>
    std::vector<T> all_reduce(std::vector<T> list, ReduceOp op = ReduceOp::mean,
                              std::optional<Dim> dim = Dim::dp) const {
        return all_reduce(std::span(list), op, dim), list;
    }
    /// The same in place.
    template <class T>
    void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::mean, std::optional<Dim> dim = Dim::dp) const {
        if (!is_distributed()) return;
        auto& on = group(dim);
        if (op == ReduceOp::sum) on.all_reduce(data, rankmesh::sum);
        if (op == ReduceOp::mean) on.all_reduce(data, rankmesh::mean);
        if (op == ReduceOp::max) on.all_reduce(data, rankmesh::max);
        if (op == ReduceOp::min) on.all_reduce(data, rankmesh::min);
    }
    /// The members' values one after the other: as many as the group has members, where the original counts
    /// the world's.
    std::vector<double> all_gather(double value, std::optional<Dim> dim = Dim::dp) const {
        return all_gather(std::vector{value}, dim);
    }
    template <class T>
    std::vector<T> all_gather(const std::vector<T>& list, std::optional<Dim> dim = Dim::dp) const {
        if (!is_distributed()) return list;
        auto all = std::vector<T>(list.size() * static_cast<std::size_t>(get_world_size(dim)));
        group(dim).all_gather(list, all);
        return all;
    }
    /// The data of global rank `src`, which must be in this rank's group: dialect::Error names those that
    /// are. Of a number, a list or a text; a span is overwritten.
    template <class Data>
    Data broadcast(Data data, int src = 0, std::optional<Dim> dim = Dim::dp) const {
        if (!is_distributed()) return data;
        const auto root = group_rank_of(src, dim);
        if constexpr (std::is_same_v<Data, std::string>)
            group(dim).broadcast_object(data, root);
        else
            group(dim).broadcast(data, root);
        return data;
    }

    /// Nothing is in flight on the host's engine when its calls return.
    void sync() const {}
    /// Returns once every rank of the world has called it.
    void barrier() const;
    /// Gives the communicators up; every later call of one throws dialect::Error.
    void destroy() { groups_.clear(); }
    /// Runs `body` on the first process, of each host or of the world, and on the others after it, also if it
    /// throws there.
    void main_process_first(const std::function<void()>& body, bool local_only = true) const;

private:
    int group_rank_of(int src, std::optional<Dim> dim) const;

    mutable std::vector<Communicator> groups_;  // by Dim, then the world's, then the host's
};

/// What the original keeps as a singleton, for a program that wants it so: the first call that succeeds makes
/// the interface, later ones return it whatever they are given.
class Instance {
public:
    DistributedInterface& operator()(const std::function<DistributedInterface()>& make) {
        if (!made_) made_ = std::make_unique<DistributedInterface>(make());
        return *made_;
    }

private:
    std::unique_ptr<DistributedInterface> made_;
};

}  // namespace rankmesh::llamafactory
