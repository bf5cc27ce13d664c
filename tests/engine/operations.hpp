// SPDX-License-Identifier: Apache-2.0
// Every operation on one communicator, compared with what the ranks of its group alone say it must give.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include <rankmesh/engine/communicator.hpp>

namespace operations {

using rankmesh::Communicator;
using rankmesh::Edge;
using rankmesh::Pending;

/// Element i of what world rank `rank` contributes: small whole numbers, whose sums are exact in any order.
template <class T>
T value(int rank, std::size_t i) {
    return static_cast<T>((rank * 7 + static_cast<int>(i) * 3) % 11 - 3);
}

template <class T>
std::vector<T> contribution(int rank, std::size_t count) {
    auto values = std::vector<T>(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value<T>(rank, i);
    return values;
}

/// Element i of the reduction over `ranks`.
template <class T>
T reduced(const std::vector<int>& ranks, std::size_t i, rankmesh::Reduction reduction) {
    auto result = value<T>(ranks.front(), i);
    for (std::size_t p = 1; p < ranks.size(); ++p) {
        const auto next = value<T>(ranks[p], i);
        if (reduction == rankmesh::Reduction::min)
            result = std::min(result, next);
        else if (reduction == rankmesh::Reduction::max)
            result = std::max(result, next);
        else
            result = static_cast<T>(result + next);
    }
    return reduction == rankmesh::Reduction::mean ? result / static_cast<T>(ranks.size()) : result;
}

/// One operation in flight or done: what to wait for, and how to tell that the result is right.
struct Running {
    std::optional<Pending> pending;
    std::function<void()> verify;

    void finish() {
        if (pending) pending->wait();
        verify();
    }
};

/// Runs, or starts, operation number `which` of all with `count` elements of type T.
template <class T>
class Suite {
public:
    static constexpr int size = 14;

    Suite(Communicator& on, int me, std::size_t count)
        : on_(on), ranks_(on.world_ranks()), n_(ranks_.size()), me_(me), count_(count) {}

    Running run(int which, bool start) {
        switch (which) {
            case 0:
                return all_reduce(rankmesh::sum, start);
            case 1:
                return all_reduce(rankmesh::min, start);
            case 2:
                return all_reduce(rankmesh::max, start);
            case 3:
                return reduce_scatter(rankmesh::sum, start);
            case 4:
                return reduce_scatter(rankmesh::max, start);
            case 5:
                return all_gather(start);
            case 6:
                return broadcast(static_cast<int>(n_) - 1, start);
            case 7:
                return all_to_all(start);
            case 8:
                return shift(1, Edge::wrap, start);
            case 9:
                return shift(-2, Edge::wrap, start);
            case 10:
                return shift(1, Edge::open, start);
            case 11:
                return barrier(start);
            case 12:
                return all_reduce_in_place(start);
            default:
                return mean(start);
        }
    }

private:
    struct Buffers {
        std::vector<T> in;
        std::vector<T> out;
    };
    using Shared = std::shared_ptr<Buffers>;

    Shared buffers(std::size_t in, std::size_t out) const {
        return std::make_shared<Buffers>(Buffers{contribution<T>(me_, in), std::vector<T>(out, T{77})});
    }

    template <class R>
    Running all_reduce(R reduction, bool start) {
        auto b = buffers(count_, count_);
        auto running = Running{};
        if (start)
            running.pending = on_.start_all_reduce(b->in, b->out, reduction);
        else
            on_.all_reduce(b->in, b->out, reduction);
        running.verify = [ranks = ranks_, b] {
            for (std::size_t i = 0; i < b->out.size(); ++i)
                ASSERT_EQ(b->out[i], reduced<T>(ranks, i, R::value)) << i;
        };
        return running;
    }
    Running all_reduce_in_place(bool start) {
        auto b = buffers(count_, 0);
        auto running = Running{};
        if (start)
            running.pending = on_.start_all_reduce(b->in);
        else
            on_.all_reduce(b->in);
        running.verify = [ranks = ranks_, b] {
            for (std::size_t i = 0; i < b->in.size(); ++i)
                ASSERT_EQ(b->in[i], reduced<T>(ranks, i, rankmesh::Reduction::sum)) << i;
        };
        return running;
    }
    Running mean(bool start) {
        if constexpr (std::is_floating_point_v<T>)
            return all_reduce(rankmesh::mean, start);
        else
            return all_reduce(rankmesh::sum, start);
    }
    template <class R>
    Running reduce_scatter(R reduction, bool start) {
        auto b = buffers(count_ * n_, count_);
        auto running = Running{};
        if (start)
            running.pending = on_.start_reduce_scatter(b->in, b->out, reduction);
        else
            on_.reduce_scatter(b->in, b->out, reduction);
        running.verify = [ranks = ranks_, b, first = static_cast<std::size_t>(on_.rank()) * count_] {
            for (std::size_t i = 0; i < b->out.size(); ++i)
                ASSERT_EQ(b->out[i], reduced<T>(ranks, first + i, R::value)) << i;
        };
        return running;
    }
    Running all_gather(bool start) {
        auto b = buffers(count_, count_ * n_);
        auto running = Running{};
        if (start)
            running.pending = on_.start_all_gather(b->in, b->out);
        else
            on_.all_gather(b->in, b->out);
        running.verify = [ranks = ranks_, b, count = count_] {
            for (std::size_t p = 0; p < ranks.size(); ++p)
                for (std::size_t i = 0; i < count; ++i)
                    ASSERT_EQ(b->out[p * count + i], value<T>(ranks[p], i)) << p << ", " << i;
        };
        return running;
    }
    Running broadcast(int root, bool start) {
        auto b = buffers(count_, 0);
        auto running = Running{};
        if (start)
            running.pending = on_.start_broadcast(b->in, root);
        else
            on_.broadcast(b->in, root);
        running.verify = [b, from = on_.world_rank(root)] {
            for (std::size_t i = 0; i < b->in.size(); ++i) ASSERT_EQ(b->in[i], value<T>(from, i)) << i;
        };
        return running;
    }
    Running all_to_all(bool start) {
        auto b = buffers(count_ * n_, count_ * n_);
        auto running = Running{};
        if (start)
            running.pending = on_.start_all_to_all(b->in, b->out);
        else
            on_.all_to_all(b->in, b->out);
        running.verify = [ranks = ranks_, b, count = count_, mine = static_cast<std::size_t>(on_.rank())] {
            for (std::size_t p = 0; p < ranks.size(); ++p)
                for (std::size_t i = 0; i < count; ++i)
                    ASSERT_EQ(b->out[p * count + i], value<T>(ranks[p], mine * count + i)) << p << ", " << i;
        };
        return running;
    }
    Running shift(int by, Edge edge, bool start) {
        auto b = buffers(count_, count_);
        auto running = Running{};
        if (start)
            running.pending = on_.start_shift(b->in, b->out, by, edge);
        else
            on_.shift(b->in, b->out, by, edge);
        const auto n = static_cast<int>(n_);
        auto from = on_.rank() - by;
        if (edge == Edge::wrap) from = (from % n + n) % n;
        const auto source = from >= 0 && from < n ? on_.world_rank(from) : -1;
        running.verify = [b, source] {
            for (std::size_t i = 0; i < b->out.size(); ++i)
                ASSERT_EQ(b->out[i], source < 0 ? T{77} : value<T>(source, i)) << i;
        };
        return running;
    }
    Running barrier(bool start) {
        auto running = Running{};
        if (start)
            running.pending = on_.start_barrier();
        else
            on_.barrier();
        running.verify = [] {};
        return running;
    }

    Communicator& on_;
    std::vector<int> ranks_;
    std::size_t n_;
    int me_;
    std::size_t count_;
};

/// Every operation, once blocking and once with all of them in flight together.
template <class T>
void check_all(Communicator& on, int me, std::size_t count) {
    SCOPED_TRACE(on.label() + ", rank " + std::to_string(me) + ", " + std::to_string(count) + " elements");
    auto suite = Suite<T>(on, me, count);
    for (int which = 0; which < Suite<T>::size; ++which) suite.run(which, false).finish();
    auto flying = std::vector<Running>{};
    for (int which = 0; which < Suite<T>::size; ++which) flying.push_back(suite.run(which, true));
    for (auto it = flying.rbegin(); it != flying.rend(); ++it) it->finish();
}

}  // namespace operations
