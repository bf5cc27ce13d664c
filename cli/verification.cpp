// SPDX-License-Identifier: Apache-2.0
#include "verification.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

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
    all_gather,
    reduce_scatter,
    broadcast,
    all_to_all,
    shift,
    barrier
};

/// One operation with buffers of one type.
template <class T>
class Trial {
public:
    Trial(Communicator& on, const Facts& facts, Which which, std::size_t count)
        : on_(on), facts_(facts), which_(which), count_(count) {
        const auto n = static_cast<std::size_t>(facts.size);
        const auto wide_in = which == reduce_scatter || which == all_to_all;
        const auto wide_out = which == all_gather || which == all_to_all;
        in_.resize(count * (wide_in ? n : 1));
        out_.resize(count * (wide_out ? n : 1));
        for (std::size_t i = 0; i < in_.size(); ++i)
            in_[i] = static_cast<T>(facts.from(facts.me) + Facts::at(i));
    }

    void run() {
        prepare();
        switch (which_) {
            case all_reduce_sum:
                on_.all_reduce(in_, out_);
                break;
            case all_reduce_min:
                on_.all_reduce(in_, out_, rankmesh::min);
                break;
            case all_reduce_max:
                on_.all_reduce(in_, out_, rankmesh::max);
                break;
            case all_reduce_mean:
                if constexpr (std::is_floating_point_v<T>) on_.all_reduce(in_, out_, rankmesh::mean);
                break;
            case all_gather:
                on_.all_gather(in_, out_);
                break;
            case reduce_scatter:
                on_.reduce_scatter(in_, out_);
                break;
            case broadcast:
                on_.broadcast(out_, facts_.size - 1);
                break;
            case all_to_all:
                on_.all_to_all(in_, out_);
                break;
            case shift:
                on_.shift(in_, out_);
                break;
            case barrier:
                on_.barrier();
                break;
        }
    }
    void start_and_wait() {
        prepare();
        auto pending = [&]() -> Pending {
            switch (which_) {
                case all_reduce_sum:
                    return on_.start_all_reduce(in_, out_);
                case all_reduce_min:
                    return on_.start_all_reduce(in_, out_, rankmesh::min);
                case all_reduce_max:
                    return on_.start_all_reduce(in_, out_, rankmesh::max);
                case all_reduce_mean:
                    if constexpr (std::is_floating_point_v<T>)
                        return on_.start_all_reduce(in_, out_, rankmesh::mean);
                    return {};
                case all_gather:
                    return on_.start_all_gather(in_, out_);
                case reduce_scatter:
                    return on_.start_reduce_scatter(in_, out_);
                case broadcast:
                    return on_.start_broadcast(out_, facts_.size - 1);
                case all_to_all:
                    return on_.start_all_to_all(in_, out_);
                case shift:
                    return on_.start_shift(in_, out_);
                case barrier:
                    return on_.start_barrier();
            }
            return {};
        }();
        pending.wait();
    }
    /// How many elements are wrong.
    std::int64_t wrong() const {
        if (which_ == barrier || (which_ == all_reduce_mean && !std::is_floating_point_v<T>)) return 0;
        auto wrong = std::int64_t{0};
        for (std::size_t i = 0; i < out_.size(); ++i) wrong += out_[i] == expected(i) ? 0 : 1;
        return wrong;
    }
    std::size_t bytes() const {
        return which_ == barrier ? 0 : std::max(in_.size(), out_.size()) * sizeof(T);
    }

private:
    void prepare() {
        // A broadcast is in place; everywhere else no right value is there before the call.
        if (which_ == broadcast)
            out_ = in_;
        else
            std::ranges::fill(out_, static_cast<T>(-1));
    }
    T expected(std::size_t i) const {
        const auto n = static_cast<std::int64_t>(facts_.size);
        const auto mine = static_cast<std::size_t>(facts_.me) * count_;
        const auto at = Facts::at(i);
        switch (which_) {
            case all_reduce_sum:
                return static_cast<T>(facts_.total + n * at);
            case all_reduce_min:
                return static_cast<T>(facts_.low + at);
            case all_reduce_max:
                return static_cast<T>(facts_.high + at);
            case all_reduce_mean:
                return static_cast<T>(facts_.total + n * at) / static_cast<T>(n);
            case all_gather:
                return static_cast<T>(facts_.from(static_cast<int>(i / count_)) + Facts::at(i % count_));
            case reduce_scatter:
                return static_cast<T>(facts_.total + n * Facts::at(mine + i));
            case broadcast:
                return static_cast<T>(facts_.from(facts_.size - 1) + at);
            case all_to_all:
                return static_cast<T>(facts_.from(static_cast<int>(i / count_)) +
                                      Facts::at(mine + i % count_));
            case shift:
                return static_cast<T>(facts_.from((facts_.me + facts_.size - 1) % facts_.size) + at);
            case barrier:
                break;
        }
        return T{};
    }

    Communicator& on_;
    const Facts& facts_;
    Which which_;
    std::size_t count_;
    std::vector<T> in_;
    std::vector<T> out_;
};

template <class T>
std::int64_t check(Communicator& on, const Facts& facts, Which which) {
    auto trial = Trial<T>(on, facts, which, 5);
    trial.run();
    auto wrong = trial.wrong();
    trial.start_and_wait();
    return wrong + trial.wrong();
}

}  // namespace

const std::vector<std::string_view>& operation_names() {
    static const auto names = std::vector<std::string_view>{
        "all_reduce sum", "all_reduce min", "all_reduce max", "all_reduce mean", "all_gather",
        "reduce_scatter", "broadcast",      "all_to_all",     "shift",           "barrier"};
    return names;
}

Verified verify(Communicator& on, int which, std::size_t bytes) {
    const auto operation = static_cast<Which>(which);
    const auto facts = Facts(on);
    auto wrong = check<std::int32_t>(on, facts, operation) + check<std::int64_t>(on, facts, operation) +
                 check<float>(on, facts, operation) + check<double>(on, facts, operation);

    const auto wide = operation == all_gather || operation == reduce_scatter || operation == all_to_all;
    const auto parts = wide ? static_cast<std::size_t>(facts.size) : 1;
    auto trial = Trial<float>(on, facts, operation, std::max<std::size_t>(1, bytes / sizeof(float) / parts));
    trial.run();  // the first call pays for connecting
    constexpr auto calls = 3;
    auto seconds = 0.0;
    for (int i = 0; i < calls; ++i) {
        on.barrier();
        const auto begin = Clock::now();
        trial.run();
        seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    wrong += trial.wrong();
    return {.operation = operation_names()[static_cast<std::size_t>(which)],
            .bytes = trial.bytes(),
            .seconds = seconds / calls,
            .wrong = wrong};
}

}  // namespace rankmesh::cli
