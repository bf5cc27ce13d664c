// SPDX-License-Identifier: Apache-2.0
#include "verification.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include <rankmesh/engine/nccl_array.hpp>

namespace rankmesh::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// What the group contributes, summed up: member r gives r % 5 + i % 7 as element i, so every result is a
/// closed form.
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
    std::vector<int> parts;  // by position
    std::int64_t total = 0;
    int low;
    int high;
};

enum Which {
    all_reduce_sum,
    all_reduce_min,
    all_reduce_max,
    all_reduce_mean,
    reduce,
    scan,
    reduce_scatter,
    broadcast,
    all_gather,
    all_gather_v,
    gather,
    scatter,
    all_to_all,
    all_to_all_v,
    shift,
    send_recv,
    barrier
};

bool is_wide_in(Which which) {
    return which == reduce_scatter || which == scatter || which == all_to_all || which == all_to_all_v;
}
bool is_wide_out(Which which) {
    return which == all_gather || which == all_gather_v || which == gather || which == all_to_all ||
           which == all_to_all_v;
}

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
    /// Copies the elements to the device, or back.
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
    Trial(Communicator& on, const Facts& facts, Which which, std::size_t count, const nccl::World* devices)
        : on_(on),
          facts_(facts),
          which_(which),
          count_(count),
          in_(count * (is_wide_in(which) ? static_cast<std::size_t>(facts.size) : 1), devices),
          out_(count * (is_wide_out(which) ? static_cast<std::size_t>(facts.size) : 1), devices),
          counts_(static_cast<std::size_t>(facts.size), count) {
        for (std::size_t i = 0; i < in_.here.size(); ++i)
            in_.here[i] = static_cast<T>(facts.from(facts.me) + Facts::at(i));
        in_.put();
    }

    /// Fills the buffers before each run, so that no output is right before the call; a broadcast is in
    /// place.
    void prepare() {
        if (which_ == broadcast)
            out_.here = in_.here;
        else
            std::ranges::fill(out_.here, static_cast<T>(-1));
        out_.put();
    }
    void run() { perform(false).wait(); }
    void run_started() { perform(true).synchronize(); }
    /// How many elements are wrong.
    std::int64_t wrong() {
        if (on_.space() == Space::device) on_.start_barrier().synchronize();  // throws errors of the device
        out_.get();
        if (which_ == barrier || (which_ == all_reduce_mean && !std::is_floating_point_v<T>)) return 0;
        auto wrong = std::int64_t{0};
        for (std::size_t i = 0; i < out_.here.size(); ++i) wrong += out_.here[i] == expected(i) ? 0 : 1;
        return wrong;
    }
    std::size_t bytes() const {
        return which_ == barrier ? 0 : std::max(in_.here.size(), out_.here.size()) * sizeof(T);
    }

private:
    Pending perform(bool start) {
        const auto in = in_.memory();
        const auto out = out_.memory();
        switch (which_) {
            case all_reduce_sum:
                return reduced(rankmesh::sum, start);
            case all_reduce_min:
                return reduced(rankmesh::min, start);
            case all_reduce_max:
                return reduced(rankmesh::max, start);
            case all_reduce_mean:
                if constexpr (std::is_floating_point_v<T>) return reduced(rankmesh::mean, start);
                break;
            case reduce:
                if (start) return on_.start_reduce(in, out, rankmesh::sum, last());
                on_.reduce(in, out, rankmesh::sum, last());
                break;
            case scan:
                if (start) return on_.start_scan(in, out);
                on_.scan(in, out);
                break;
            case reduce_scatter:
                if (start) return on_.start_reduce_scatter(in, out);
                on_.reduce_scatter(in, out);
                break;
            case broadcast:
                if (start) return on_.start_broadcast(out, last());
                on_.broadcast(out, last());
                break;
            case all_gather:
                if (start) return on_.start_all_gather(in, out);
                on_.all_gather(in, out);
                break;
            case all_gather_v:
                if (start) return on_.start_all_gather_v(in, out, counts_);
                on_.all_gather_v(in, out, counts_);
                break;
            case gather:
                if (start) return on_.start_gather(in, out, last());
                on_.gather(in, out, last());
                break;
            case scatter:
                if (start) return on_.start_scatter(in, out, last());
                on_.scatter(in, out, last());
                break;
            case all_to_all:
                if (start) return on_.start_all_to_all(in, out);
                on_.all_to_all(in, out);
                break;
            case all_to_all_v:
                if (start) return on_.start_all_to_all_v(in, counts_, out, counts_);
                on_.all_to_all_v(in, counts_, out, counts_);
                break;
            case shift:
                if (start) return on_.start_shift(in, out);
                on_.shift(in, out);
                break;
            case send_recv:
                if (start) return on_.start_send_recv(in, before(), out, after());
                on_.send_recv(in, before(), out, after());
                break;
            case barrier:
                if (start) return on_.start_barrier();
                on_.barrier();
                break;
        }
        return {};
    }
    template <class R>
    Pending reduced(R reduction, bool start) {
        if (start) return on_.start_all_reduce(in_.memory(), out_.memory(), reduction);
        on_.all_reduce(in_.memory(), out_.memory(), reduction);
        return {};
    }
    int last() const { return facts_.size - 1; }
    int before() const { return (facts_.me + facts_.size - 1) % facts_.size; }
    int after() const { return (facts_.me + 1) % facts_.size; }
    /// True for the buffers that an operation with a root leaves as they were.
    bool is_untouched() const { return (which_ == reduce || which_ == gather) && facts_.me != last(); }

    T expected(std::size_t i) const {
        const auto n = static_cast<std::int64_t>(facts_.size);
        const auto mine = static_cast<std::size_t>(facts_.me) * count_;
        const auto at = Facts::at(i);
        if (is_untouched()) return static_cast<T>(-1);
        switch (which_) {
            case all_reduce_sum:
            case reduce:
                return static_cast<T>(facts_.total + n * at);
            case scan: {
                auto sum = std::int64_t{0};
                for (int p = 0; p <= facts_.me; ++p) sum += facts_.from(p) + at;
                return static_cast<T>(sum);
            }
            case all_reduce_min:
                return static_cast<T>(facts_.low + at);
            case all_reduce_max:
                return static_cast<T>(facts_.high + at);
            case all_reduce_mean:
                return static_cast<T>(facts_.total + n * at) / static_cast<T>(n);
            case all_gather:
            case all_gather_v:
            case gather:
                return static_cast<T>(facts_.from(static_cast<int>(i / count_)) + Facts::at(i % count_));
            case reduce_scatter:
                return static_cast<T>(facts_.total + n * Facts::at(mine + i));
            case broadcast:
                return static_cast<T>(facts_.from(facts_.size - 1) + at);
            case scatter:
                return static_cast<T>(facts_.from(last()) + Facts::at(mine + i));
            case all_to_all:
            case all_to_all_v:
                return static_cast<T>(facts_.from(static_cast<int>(i / count_)) +
                                      Facts::at(mine + i % count_));
            case shift:
                return static_cast<T>(facts_.from(before()) + at);
            case send_recv:
                return static_cast<T>(facts_.from(after()) + at);
            case barrier:
                break;
        }
        return T{};
    }

    Communicator& on_;
    const Facts& facts_;
    Which which_;
    std::size_t count_;
    Elements<T> in_;
    Elements<T> out_;
    std::vector<std::size_t> counts_;
};

template <class T>
std::int64_t check(Communicator& on, const Facts& facts, Which which, const nccl::World* devices) {
    auto trial = Trial<T>(on, facts, which, 5, devices);
    trial.prepare();
    // Memory is allocated before any rank of the group calls: with peers in one process that waits for
    // kernels.
    if (devices) on.host().barrier();
    trial.run();
    const auto wrong = trial.wrong();
    trial.prepare();
    trial.run_started();
    return wrong + trial.wrong();
}

}  // namespace

const std::vector<std::string_view>& operation_names() {
    static const auto names = std::vector<std::string_view>{
        "all_reduce sum", "all_reduce min", "all_reduce max", "all_reduce mean", "reduce", "scan",
        "reduce_scatter", "broadcast",      "all_gather",     "all_gather_v",    "gather", "scatter",
        "all_to_all",     "all_to_all_v",   "shift",          "send_recv",       "barrier"};
    return names;
}

Verified verify(Communicator& on, int which, std::size_t bytes, const nccl::World* devices) {
    const auto operation = static_cast<Which>(which);
    const auto facts = Facts(on);
    auto wrong = check<std::int32_t>(on, facts, operation, devices) +
                 check<std::int64_t>(on, facts, operation, devices) +
                 check<float>(on, facts, operation, devices) + check<double>(on, facts, operation, devices);

    const auto wide = is_wide_in(operation) || is_wide_out(operation);
    const auto parts = wide ? static_cast<std::size_t>(facts.size) : 1;
    auto trial =
        Trial<float>(on, facts, operation, std::max<std::size_t>(1, bytes / sizeof(float) / parts), devices);
    auto host = on.host();
    // The first call, which also connects, is not timed.
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
    return {.operation = operation_names()[static_cast<std::size_t>(which)],
            .bytes = trial.bytes(),
            .seconds = seconds / calls,
            .wrong = wrong};
}

}  // namespace rankmesh::cli
