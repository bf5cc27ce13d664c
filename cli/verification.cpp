// SPDX-License-Identifier: Apache-2.0
#include "verification.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include <rankmesh/engine/nccl_array.hpp>
#include <rankmesh/engine/sparse.hpp>

namespace rankmesh::cli {
namespace {

using detail::Operation;
using Clock = std::chrono::steady_clock;

/// Sums of the group's inputs. Member r contributes r % 5 + i % 7 as element i; every result has a closed
/// form.
struct Facts {
    explicit Facts(const Communicator& on) : size(on.size()), me(on.rank()) {
        low = high = part(on.world_rank(0));
        for (int p = 0; p < size; ++p) {
            parts.push_back(part(on.world_rank(p)));
            total += parts.back();
            low = std::min(low, parts.back());
            high = std::max(high, parts.back());
        }
    }
    static int part(int rank) { return rank % 5; }
    static int at(std::size_t i) { return static_cast<int>(i % 7); }
    int from(int position) const { return parts[static_cast<std::size_t>(position)]; }

    int size;
    int me;
    std::vector<int> parts;  // the value r % 5 of each member, by position
    std::int64_t total = 0;
    int low;
    int high;
};

/// How messages between two ranks are exchanged: by a call of both, or without knowing who sends.
enum class From { known, any_rank, sparse };

/// An operation, with the reduction by which an all_reduce is run.
struct Tested {
    Operation operation;
    Reduction reduction = Reduction::sum;
    From from = From::known;
    bool is(Operation other) const { return operation == other; }
};

constexpr Tested all_tested[] = {{Operation::all_reduce, Reduction::sum},
                                 {Operation::all_reduce, Reduction::min},
                                 {Operation::all_reduce, Reduction::max},
                                 {Operation::all_reduce, Reduction::mean},
                                 {Operation::reduce},
                                 {Operation::scan},
                                 {Operation::exclusive_scan},
                                 {Operation::reduce_scatter},
                                 {Operation::broadcast},
                                 {Operation::all_gather},
                                 {Operation::all_gather_v},
                                 {Operation::gather},
                                 {Operation::scatter},
                                 {Operation::all_to_all},
                                 {Operation::all_to_all_v},
                                 {Operation::shift},
                                 {Operation::send_recv},
                                 {Operation::gather_v},
                                 {Operation::scatter_v},
                                 {Operation::barrier},
                                 {.operation = Operation::send_recv, .from = From::any_rank},
                                 {.operation = Operation::send_recv, .from = From::sparse}};
constexpr auto only_on_hosts = std::size_t{2};  // the last ones

/// Elements in the communicator's memory: on the host, or on a device with a copy on the host.
template <class T>
class Elements {
public:
    Elements(std::size_t size, const nccl::World* devices) : here(size) {
        if (devices) there_.emplace(*devices, size);
    }
    Memory<T> memory() {
        return there_ ? there_->memory() : Memory<T>(here.data(), here.size(), Space::host);
    }
    /// Copies the elements to the device.
    void put() {
        if (there_) there_->copy_from(here);
    }
    void get() {
        if (there_) there_->copy_to(here);
    }

    std::vector<T> here;

private:
    std::optional<nccl::Array<T>> there_;
};

/// One operation with buffers of one type.
template <class T>
class Trial {
public:
    Trial(Communicator& on, const Facts& facts, const Tested& tested, std::size_t count,
          const nccl::World* devices)
        : on_(on),
          facts_(facts),
          tested_(tested),
          count_(count),
          in_(count * (traits(tested.operation).in_parts ? facts.parts.size() : 1), devices),
          out_(count * (traits(tested.operation).out_parts ? facts.parts.size() : 1), devices),
          counts_(static_cast<std::size_t>(facts.size), count) {
        for (std::size_t i = 0; i < in_.here.size(); ++i)
            in_.here[i] = static_cast<T>(facts.from(facts.me) + Facts::at(i));
        in_.put();
    }

    /// Fills the buffers before each run with wrong outputs. A broadcast is in place.
    void prepare() {
        if (tested_.is(Operation::broadcast))
            out_.here = in_.here;
        else
            std::ranges::fill(out_.here, static_cast<T>(-1));
        out_.put();
    }
    void run() { perform(on_); }
    void run_started() { perform(on_.start()).synchronize(); }
    /// Returns the number of wrong elements.
    std::int64_t wrong() {
        if (on_.space() == Space::device) on_.start().barrier().synchronize();  // throws errors of the device
        out_.get();
        if (tested_.is(Operation::barrier)) return 0;
        // The mean of integers is not defined.
        if (tested_.reduction == Reduction::mean && !std::is_floating_point_v<T>) return 0;
        auto wrong = std::int64_t{0};
        for (std::size_t i = 0; i < out_.here.size(); ++i) wrong += out_.here[i] == expected(i) ? 0 : 1;
        return wrong;
    }
    std::size_t bytes() const {
        return tested_.is(Operation::barrier) ? 0 : std::max(in_.here.size(), out_.here.size()) * sizeof(T);
    }

private:
    /// Runs the operation on a communicator, or starts it on what its start() returns.
    template <class On>
    auto perform(On&& on) -> decltype(on.barrier()) {
        using Result = decltype(on.barrier());
        const auto in = in_.memory();
        const auto out = out_.memory();
        const auto is = [&](Operation operation) { return tested_.is(operation); };
        if (is(Operation::all_reduce)) {
            if (tested_.reduction == Reduction::min) return on.all_reduce(in, out, rankmesh::min);
            if (tested_.reduction == Reduction::max) return on.all_reduce(in, out, rankmesh::max);
            if (tested_.reduction == Reduction::sum) return on.all_reduce(in, out, rankmesh::sum);
            if constexpr (std::is_floating_point_v<T>) return on.all_reduce(in, out, rankmesh::mean);
            return Result();
        }
        if (is(Operation::reduce)) return on.reduce(in, out, rankmesh::sum, last());
        if (is(Operation::scan)) return on.scan(in, out);
        if (is(Operation::exclusive_scan)) return on.exclusive_scan(in, out);
        if (is(Operation::reduce_scatter)) return on.reduce_scatter(in, out);
        if (is(Operation::broadcast)) return on.broadcast(out, last());
        if (is(Operation::all_gather)) return on.all_gather(in, out);
        if (is(Operation::all_gather_v)) return on.all_gather_v(in, out, counts_);
        if (is(Operation::gather)) return on.gather(in, out, last());
        if (is(Operation::gather_v)) return on.gather_v(in, out, counts_, last());
        if (is(Operation::scatter)) return on.scatter(in, out, last());
        if (is(Operation::scatter_v)) return on.scatter_v(in, counts_, out, last());
        if (is(Operation::all_to_all)) return on.all_to_all(in, out);
        if (is(Operation::all_to_all_v)) return on.all_to_all_v(in, counts_, out, counts_);
        if (is(Operation::shift)) return on.shift(in, out);
        if (is(Operation::barrier)) return on.barrier();
        if (tested_.from == From::sparse) return sparse(), Result();
        if (tested_.from == From::any_rank && facts_.size > 1) return from_any_rank(on);
        return on.send_recv(in, before(), out, after());
    }
    void from_any_rank(Communicator& on) {
        auto sent = on.start().send(in_.memory(), before());
        on.recv(out_.memory(), any_rank);
        sent.wait();
    }
    Pending from_any_rank(Starting& on) {
        auto sent = on.send(in_.memory(), before());
        auto received = on.recv(out_.memory(), any_rank);
        sent.wait();
        return received;
    }
    void sparse() {
        const auto messages = std::array{std::pair(before(), std::span<const T>(in_.here))};
        for (const auto& [from, arrived] : sparse_all_to_all(on_, messages))
            if (from == after() && arrived.size() == out_.here.size()) out_.here = arrived;
    }
    int last() const { return facts_.size - 1; }
    int before() const { return (facts_.me + facts_.size - 1) % facts_.size; }
    int after() const { return (facts_.me + 1) % facts_.size; }

    T expected(std::size_t i) const {
        const auto n = static_cast<std::int64_t>(facts_.size);
        const auto mine = static_cast<std::size_t>(facts_.me) * count_;
        const auto at = Facts::at(i);
        const auto is = [&](auto... operations) { return (tested_.is(operations) || ...); };
        // Only the root writes the output of some operations.
        if (traits(tested_.operation).writes == detail::Users::root && facts_.me != last())
            return static_cast<T>(-1);
        if (is(Operation::all_reduce)) {
            if (tested_.reduction == Reduction::min) return static_cast<T>(facts_.low + at);
            if (tested_.reduction == Reduction::max) return static_cast<T>(facts_.high + at);
            if (tested_.reduction == Reduction::mean)
                return static_cast<T>(facts_.total + n * at) / static_cast<T>(n);
        }
        if (is(Operation::all_reduce, Operation::reduce)) return static_cast<T>(facts_.total + n * at);
        if (is(Operation::scan, Operation::exclusive_scan)) {
            const auto end = facts_.me + (is(Operation::scan) ? 1 : 0);
            auto sum = std::int64_t{0};
            for (int p = 0; p < end; ++p) sum += facts_.from(p) + at;
            return static_cast<T>(sum);
        }
        if (is(Operation::all_gather, Operation::all_gather_v, Operation::gather, Operation::gather_v))
            return static_cast<T>(facts_.from(static_cast<int>(i / count_)) + Facts::at(i % count_));
        if (is(Operation::reduce_scatter)) return static_cast<T>(facts_.total + n * Facts::at(mine + i));
        if (is(Operation::broadcast)) return static_cast<T>(facts_.from(last()) + at);
        if (is(Operation::scatter, Operation::scatter_v))
            return static_cast<T>(facts_.from(last()) + Facts::at(mine + i));
        if (is(Operation::all_to_all, Operation::all_to_all_v))
            return static_cast<T>(facts_.from(static_cast<int>(i / count_)) + Facts::at(mine + i % count_));
        return static_cast<T>(facts_.from(is(Operation::shift) ? before() : after()) + at);  // or send_recv
    }

    Communicator& on_;
    const Facts& facts_;
    Tested tested_;
    std::size_t count_;
    Elements<T> in_;
    Elements<T> out_;
    std::vector<std::size_t> counts_;
};

template <class T>
std::int64_t check(Communicator& on, const Facts& facts, const Tested& tested, const nccl::World* devices) {
    auto trial = Trial<T>(on, facts, tested, 5, devices);
    trial.prepare();
    // Allocate memory before any rank of the group calls, because allocation waits for kernels of peers in
    // one process.
    if (devices) on.host().barrier();
    trial.run();
    const auto wrong = trial.wrong();
    trial.prepare();
    trial.run_started();
    return wrong + trial.wrong();
}

}  // namespace

std::span<const std::string> operation_names(bool on_devices) {
    static const auto names = [] {
        auto names = std::vector<std::string>{};
        for (const auto& tested : all_tested)
            names.push_back(tested.from == From::sparse     ? "sparse_all_to_all"
                            : tested.from == From::any_rank ? "recv any_rank"
                            : tested.is(Operation::all_reduce)
                                ? detail::cat("all_reduce ", to_string(tested.reduction))
                                : std::string(to_string(tested.operation)));
        return names;
    }();
    return std::span(names).first(names.size() - (on_devices ? only_on_hosts : 0));
}

Verified verify(Communicator& on, int which, std::size_t bytes, const nccl::World* devices) {
    const auto& tested = all_tested[which];
    const auto facts = Facts(on);
    auto wrong = check<std::int32_t>(on, facts, tested, devices) +
                 check<std::int64_t>(on, facts, tested, devices) + check<float>(on, facts, tested, devices) +
                 check<double>(on, facts, tested, devices);

    const auto& operation = traits(tested.operation);
    const auto parts = operation.in_parts || operation.out_parts ? facts.parts.size() : 1;
    auto trial =
        Trial<float>(on, facts, tested, std::max<std::size_t>(1, bytes / sizeof(float) / parts), devices);
    auto host = on.host();
    // The first call is not timed, because it also connects.
    constexpr auto calls = 3;
    auto seconds = 0.0;
    for (int i = 0; i <= calls; ++i) {
        trial.prepare();
        host.barrier();
        const auto begin = Clock::now();
        if (devices)
            trial.run_started();
        else
            trial.run();
        if (i > 0) seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    wrong += trial.wrong();
    return {.operation = operation_names(false)[static_cast<std::size_t>(which)],
            .bytes = trial.bytes(),
            .seconds = seconds / calls,
            .wrong = wrong};
}

}  // namespace rankmesh::cli
