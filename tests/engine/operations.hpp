// SPDX-License-Identifier: Apache-2.0
// Every operation on one communicator, compared with what the ranks of its group alone say it must give.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <typeinfo>
#include <vector>

#include <rankmesh/engine/communicator.hpp>

namespace operations {

using rankmesh::bf16;
using rankmesh::Communicator;
using rankmesh::Edge;
using rankmesh::f16;
using rankmesh::f8e4m3;
using rankmesh::f8e5m2;
using rankmesh::Pending;
using rankmesh::Reduction;

/// A type of the user's own, which engines move as bytes.
struct Token {
    std::int32_t id = 0;
    float weight = 0;
    friend bool operator==(const Token&, const Token&) = default;
};

/// The number `n` as a T: wrapped, rounded, or its truth.
template <class T>
T make(long long n) {
    if constexpr (std::same_as<T, f16> || std::same_as<T, bf16>)
        return T(static_cast<float>(n));
    else if constexpr (std::same_as<T, bool>)
        return n % 2 != 0;
    else if constexpr (std::same_as<T, Token>)
        return {static_cast<std::int32_t>(n), static_cast<float>(n) / 2};
    else if constexpr (std::same_as<T, f8e4m3> || std::same_as<T, f8e5m2>)
        return {static_cast<std::uint8_t>(n)};
    else
        return static_cast<T>(n);
}

/// Element i of what world rank `rank` contributes: small whole numbers, whose sums fit and are exact in any
/// order.
template <class T>
long long number(int rank, std::size_t i) {
    return (rank * 7 + static_cast<int>(i) * 3) % 11 - (std::unsigned_integral<T> ? 0 : 3);
}
/// The same for products: ones and twos, so that those of eight ranks are exact too.
inline long long factor(int rank, std::size_t i) {
    return (static_cast<std::size_t>(rank) + i) % 3 == 0 ? 2 : 1;
}

template <class T>
T value(int rank, std::size_t i) {
    return make<T>(number<T>(rank, i));
}
template <class T>
T payload(Reduction reduction, int rank, std::size_t i) {
    return reduction == Reduction::prod ? make<T>(factor(rank, i)) : value<T>(rank, i);
}

/// Element i of the reduction over `ranks`, from the numbers rather than by the engine's arithmetic.
template <class T>
T reduced(const std::vector<int>& ranks, std::size_t i, Reduction reduction) {
    auto sum = 0LL;
    auto product = 1LL;
    for (auto rank : ranks) {
        sum += number<T>(rank, i);
        product *= factor(rank, i);
    }
    if (reduction == Reduction::sum) return make<T>(sum);
    if (reduction == Reduction::prod) return make<T>(product);
    if constexpr (std::integral<T> || std::same_as<T, std::byte>) {
        auto all = ~0ULL;
        auto any = 0ULL;
        auto odd = 0ULL;
        auto truths = std::size_t{0};
        for (auto rank : ranks) {
            const auto bits = static_cast<unsigned long long>(value<T>(rank, i));
            all &= bits;
            any |= bits;
            odd ^= bits;
            truths += bits != 0 ? 1 : 0;
        }
        if (reduction == Reduction::bit_and) return static_cast<T>(all);
        if (reduction == Reduction::bit_or) return static_cast<T>(any);
        if (reduction == Reduction::bit_xor) return static_cast<T>(odd);
        if (reduction == Reduction::logical_and) return static_cast<T>(truths == ranks.size());
        if (reduction == Reduction::logical_or) return static_cast<T>(truths > 0);
        if (reduction == Reduction::logical_xor) return static_cast<T>(truths % 2 == 1);
    }
    if constexpr (rankmesh::reduces(Reduction::sum, rankmesh::dtype_of<T>::value)) {
        const auto less = [](T a, T b) {
            if constexpr (std::integral<T>)
                return a < b;
            else
                return static_cast<double>(static_cast<float>(a)) <
                       static_cast<double>(static_cast<float>(b));
        };
        auto least = value<T>(ranks.front(), i);
        auto most = least;
        for (auto rank : ranks) {
            least = std::min(least, value<T>(rank, i), less);
            most = std::max(most, value<T>(rank, i), less);
        }
        if (reduction == Reduction::min) return least;
        if (reduction == Reduction::max) return most;
        if constexpr (std::same_as<T, double>)
            return static_cast<double>(sum) / static_cast<double>(ranks.size());
        else
            return T(static_cast<float>(make<T>(sum)) / static_cast<float>(ranks.size()));
    }
    return {};
}

template <class...>
struct Types {};
/// Every type that engines know, and one that they do not.
using AllTypes =
    Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
          std::uint64_t, bool, std::byte, f8e4m3, f8e5m2, f16, bf16, float, double, Token>;

/// One operation in flight or done: what to wait for, and how to tell that the result is right.
struct Running {
    std::optional<Pending> pending;
    std::function<void()> verify;

    void finish() {
        if (pending) pending->wait();
        verify();
    }
};

/// Elements of any type, bool too, whose std::vector is no buffer.
template <class T>
class Values {
public:
    explicit Values(std::size_t count) : data_(std::make_unique<T[]>(count)), count_(count) {}
    T* begin() const { return data_.get(); }
    T* end() const { return data_.get() + count_; }
    std::size_t size() const { return count_; }
    T& operator[](std::size_t i) const { return data_[i]; }

private:
    std::unique_ptr<T[]> data_;
    std::size_t count_;
};

/// Runs, or starts, operations with `count` elements of type T.
template <class T>
class Suite {
public:
    static constexpr int moves = 7;  ///< operations that only move, or do neither

    Suite(Communicator& on, int me, std::size_t count)
        : on_(on), ranks_(on.world_ranks()), n_(ranks_.size()), me_(me), count_(count) {}

    /// Operation number `which` of those that move.
    Running move(int which, bool start) {
        switch (which) {
            case 0:
                return all_gather(start);
            case 1:
                return broadcast(static_cast<int>(n_) - 1, start);
            case 2:
                return all_to_all(start);
            case 3:
                return shift(1, Edge::wrap, start);
            case 4:
                return shift(-2, Edge::wrap, start);
            case 5:
                return shift(1, Edge::open, start);
            default:
                return barrier(start);
        }
    }

    /// Every operation with the reduction R, if R makes sense on T.
    template <class R>
    std::vector<Running> reduce_by(R reduction, bool start) {
        auto running = std::vector<Running>{};
        if constexpr (rankmesh::Reduces<R, T>) {
            running.push_back(all_reduce(reduction, start));
            running.push_back(all_reduce_in_place(reduction, start));
            running.push_back(reduce_scatter(reduction, start));
        }
        return running;
    }

    /// Every operation, one after the other.
    std::vector<Running> all(bool start) {
        auto running = std::vector<Running>{};
        const auto add = [&](auto reduction) {
            for (auto& each : reduce_by(reduction, start)) running.push_back(std::move(each));
        };
        add(rankmesh::sum), add(rankmesh::prod), add(rankmesh::min), add(rankmesh::max), add(rankmesh::mean);
        add(rankmesh::bit_and), add(rankmesh::bit_or), add(rankmesh::bit_xor);
        add(rankmesh::logical_and), add(rankmesh::logical_or), add(rankmesh::logical_xor);
        for (int which = 0; which < moves; ++which) running.push_back(move(which, start));
        return running;
    }

private:
    struct Buffers {
        Values<T> in;
        Values<T> out;
    };
    using Shared = std::shared_ptr<Buffers>;

    /// What this rank contributes, and room that holds nothing right.
    Shared buffers(std::size_t in, std::size_t out, Reduction reduction = Reduction::sum) const {
        auto made = std::make_shared<Buffers>(Buffers{Values<T>(in), Values<T>(out)});
        for (std::size_t i = 0; i < in; ++i) made->in[i] = payload<T>(reduction, me_, i);
        std::ranges::fill(made->out, make<T>(77));
        return made;
    }
    template <class Expected>
    static std::function<void()> comparison(const std::string& what, Shared b, bool in_place,
                                            Expected expected) {
        return [=] {
            const auto& got = in_place ? b->in : b->out;
            for (std::size_t i = 0; i < got.size(); ++i)
                ASSERT_TRUE(got[i] == expected(i)) << what << " of " << typeid(T).name() << ", element " << i;
        };
    }

    template <class R>
    Running all_reduce(R reduction, bool start) {
        auto b = buffers(count_, count_, R::value);
        auto running = Running{};
        if (start)
            running.pending = on_.start_all_reduce(b->in, b->out, reduction);
        else
            on_.all_reduce(b->in, b->out, reduction);
        running.verify =
            comparison("all_reduce " + std::string(to_string(R::value)), b, false,
                       [ranks = ranks_](std::size_t i) { return reduced<T>(ranks, i, R::value); });
        return running;
    }
    template <class R>
    Running all_reduce_in_place(R reduction, bool start) {
        auto b = buffers(count_, 0, R::value);
        auto running = Running{};
        if (start)
            running.pending = on_.start_all_reduce(b->in, reduction);
        else
            on_.all_reduce(b->in, reduction);
        running.verify =
            comparison("all_reduce_in_place " + std::string(to_string(R::value)), b, true,
                       [ranks = ranks_](std::size_t i) { return reduced<T>(ranks, i, R::value); });
        return running;
    }
    template <class R>
    Running reduce_scatter(R reduction, bool start) {
        auto b = buffers(count_ * n_, count_, R::value);
        auto running = Running{};
        if (start)
            running.pending = on_.start_reduce_scatter(b->in, b->out, reduction);
        else
            on_.reduce_scatter(b->in, b->out, reduction);
        const auto first = static_cast<std::size_t>(on_.rank()) * count_;
        running.verify = comparison(
            "reduce_scatter " + std::string(to_string(R::value)), b, false,
            [ranks = ranks_, first](std::size_t i) { return reduced<T>(ranks, first + i, R::value); });
        return running;
    }
    Running all_gather(bool start) {
        auto b = buffers(count_, count_ * n_);
        auto running = Running{};
        if (start)
            running.pending = on_.start_all_gather(b->in, b->out);
        else
            on_.all_gather(b->in, b->out);
        running.verify = comparison("all_gather", b, false, [ranks = ranks_, count = count_](std::size_t i) {
            return value<T>(ranks[i / count], i % count);
        });
        return running;
    }
    Running broadcast(int root, bool start) {
        auto b = buffers(count_, 0);
        auto running = Running{};
        if (start)
            running.pending = on_.start_broadcast(b->in, root);
        else
            on_.broadcast(b->in, root);
        running.verify = comparison(
            "broadcast", b, true, [from = on_.world_rank(root)](std::size_t i) { return value<T>(from, i); });
        return running;
    }
    Running all_to_all(bool start) {
        auto b = buffers(count_ * n_, count_ * n_);
        auto running = Running{};
        if (start)
            running.pending = on_.start_all_to_all(b->in, b->out);
        else
            on_.all_to_all(b->in, b->out);
        const auto mine = static_cast<std::size_t>(on_.rank()) * count_;
        running.verify =
            comparison("all_to_all", b, false, [ranks = ranks_, count = count_, mine](std::size_t i) {
                return value<T>(ranks[i / count], mine + i % count);
            });
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
        running.verify = comparison("shift", b, false, [source](std::size_t i) {
            return source < 0 ? make<T>(77) : value<T>(source, i);
        });
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
    for (auto& done : suite.all(false)) done.finish();
    auto flying = suite.all(true);
    for (auto it = flying.rbegin(); it != flying.rend(); ++it) it->finish();
}

}  // namespace operations
