// SPDX-License-Identifier: Apache-2.0
// Every operation on one communicator, compared with what the ranks of its group alone say it must give.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <functional>
#include <limits>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/strided.hpp>

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
    else if constexpr (rankmesh::detail::Complex<T>)
        return {static_cast<typename T::value_type>(n), static_cast<typename T::value_type>(-2 * n)};
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
/// Element i of what world rank `rank` sends where nothing is computed: far apart for any two of them.
template <class T>
T mark(int rank, std::size_t i) {
    return make<T>((rank * 1009LL + static_cast<long long>(i) * (31 + rank)) % 4093);
}
template <class T>
T payload(Reduction reduction, int rank, std::size_t i) {
    return reduction == Reduction::prod ? make<T>(factor(rank, i)) : value<T>(rank, i);
}

/// The reduction of nothing, as an exclusive scan gives it to rank 0.
template <class T>
T of_nothing(Reduction reduction) {
    if (reduction == Reduction::prod || reduction == Reduction::logical_and) return make<T>(1);
    if constexpr (std::same_as<T, std::byte>) {
        if (reduction == Reduction::bit_and) return std::byte{0xff};
    } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
        if (reduction == Reduction::bit_and) return static_cast<T>(~T{});
    }
    if constexpr (std::integral<T>) {
        if (reduction == Reduction::min) return std::numeric_limits<T>::max();
        if (reduction == Reduction::max) return std::numeric_limits<T>::min();
    } else if constexpr (!rankmesh::detail::Complex<T> && !std::same_as<T, std::byte>) {
        if (reduction == Reduction::min) return T(std::numeric_limits<float>::infinity());
        if (reduction == Reduction::max) return T(-std::numeric_limits<float>::infinity());
    }
    return make<T>(0);
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
    if (reduction == Reduction::sum || reduction == Reduction::reproducible_sum) return make<T>(sum);
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
    if constexpr (rankmesh::detail::Complex<T>)
        return make<T>(sum) / static_cast<typename T::value_type>(ranks.size());
    else if constexpr (rankmesh::reduces(Reduction::sum, rankmesh::dtype_of<T>::value)) {
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

/// False for a reduction that the engine under test refuses, as NCCL does some: it is not called then.
inline bool (*takes)(rankmesh::detail::Operation, Reduction, rankmesh::DType) =
    [](rankmesh::detail::Operation, Reduction, rankmesh::DType) { return true; };

template <class...>
struct Types {};
/// Every type that engines know, and one that they do not.
using AllTypes = Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                       std::uint32_t, std::uint64_t, bool, std::byte, f8e4m3, f8e5m2, f16, bf16, float,
                       double, std::complex<float>, std::complex<double>, Token>;

/// A started operation: its Pending, and a check of its result.
struct Running {
    std::vector<Pending> pending;
    std::function<void()> verify;

    void finish() {
        for (auto it = pending.rbegin(); it != pending.rend(); ++it) it->wait();
        verify();
    }
};

/// Elements of any type, bool too, whose std::vector is no buffer, between two that nobody may write.
template <class T>
class Values {
public:
    using Element = T;
    explicit Values(std::size_t count = 0) : count_(count) {
        if (count == 0 || count > most) return;
        data_ = std::make_unique<T[]>(count + 2);
        data_[0] = data_[count + 1] = make<T>(55);
    }
    /// Element i is what `number(i)` says.
    template <class Number>
    Values(std::size_t count, Number&& number) : Values(count) {
        for (std::size_t i = 0; i < count; ++i) (*this)[i] = number(i);
    }
    Values(const Values& other) : Values(other.count_, [&](std::size_t i) { return other[i]; }) {}
    Values(Values&& other) noexcept = default;
    Values& operator=(Values other) noexcept {
        data_ = std::move(other.data_);
        count_ = other.count_;
        return *this;
    }
    ~Values() = default;

    T* begin() const { return data_ ? data_.get() + 1 : nullptr; }
    T* end() const { return begin() + count_; }
    std::size_t size() const { return count_; }
    T& operator[](std::size_t i) const { return begin()[i]; }
    bool is_fenced() const { return !data_ || (data_[0] == make<T>(55) && data_[count_ + 1] == make<T>(55)); }

private:
    static constexpr auto most = std::size_t{1} << 30;  // else GCC warns of what overflows

    std::unique_ptr<T[]> data_;
    std::size_t count_;
};

/// The same as elements at distances: in rows of two if they are even in number, else each before the last.
template <class T>
class Scattered {
public:
    using Element = T;
    explicit Scattered(std::size_t count = 0) : count_(count), memory_(3 * count + 2) {
        for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = make<T>(55);
    }
    template <class Number>
    Scattered(std::size_t count, Number&& number) : Scattered(count) {
        for (std::size_t i = 0; i < count; ++i) (*this)[i] = number(i);
    }

    auto view() const {
        const auto n = static_cast<std::ptrdiff_t>(count_);
        return n % 2 == 0 ? rankmesh::strided(memory_.begin() + 1, {n / 2, std::ptrdiff_t{2}}, {5, 2})
                          : rankmesh::strided(memory_.begin() + 3 * n - 2, {n, std::ptrdiff_t{1}}, {-3, 1});
    }
    std::size_t size() const { return count_; }
    T& operator[](std::size_t i) const {
        const auto at = static_cast<std::ptrdiff_t>(i);
        return count_ % 2 == 0 ? view().data()[at / 2 * 5 + at % 2 * 2] : view().data()[-3 * at];
    }
    /// True if only elements were written.
    bool is_fenced() const {
        const auto is_fence = [](const T& value) { return value == make<T>(55); };
        const auto all = std::ranges::count_if(memory_, is_fence);
        auto own = std::ptrdiff_t{0};
        for (std::size_t i = 0; i < count_; ++i)
            if (is_fence((*this)[i])) ++own;
        return all - own == static_cast<std::ptrdiff_t>(memory_.size() - count_);
    }

private:
    std::size_t count_;
    Values<T> memory_;
};

/// Memory that holds no right value.
template <class V>
V blank(std::size_t count) {
    return V(count, [](std::size_t) { return make<typename V::Element>(77); });
}

/// Fails where elements from `first` to `last` differ.
template <class V>
void expect_same(const V& got, const V& wanted, const std::string& what, std::size_t first,
                 std::size_t last) {
    using T = typename V::Element;
    EXPECT_TRUE(got.is_fenced()) << what << " of " << typeid(T).name() << " wrote outside its buffer";
    for (auto i = first; i < last; ++i)
        ASSERT_TRUE(got[i] == wanted[i]) << what << " of " << typeid(T).name() << ", element " << i;
}
template <class V>
void expect_same(const V& got, const V& wanted, const std::string& what) {
    expect_same(got, wanted, what, 0, wanted.size());
}

/// A message by the group ranks of its ends.
struct Message {
    int from;
    int to;
};

// The operation, blocking or started.
#define RANKMESH_CALL(operation, ...) \
    (start ? on_.start().operation(__VA_ARGS__) : (on_.operation(__VA_ARGS__), Pending()))

/// Runs, or starts, operations with `count` elements of type T, on buffers like V.
template <class T, class V = Values<T>>
class Suite {
public:
    static constexpr int moves = 23;  ///< operations that only move, or do neither

    Suite(Communicator& on, int me, std::size_t count)
        : on_(on),
          ranks_(on.world_ranks()),
          n_(ranks_.size()),
          size_(on.size()),
          r_(static_cast<std::size_t>(on.rank())),
          me_(me),
          count_(count) {}

    /// Operation number `which` of those that move; `root` is ignored where there is none.
    Running move(int which, int root, bool start) {
        switch (which) {
            case 0:
                return all_gather(start);
            case 1:
                return all_gather_in_place(start);
            case 2:
                return all_gather_v(start);
            case 3:
                return broadcast(root, start);
            case 4:
                return gather(root, start);
            case 5:
                return scatter(root, start);
            case 6:
                return all_to_all(start);
            case 7:
                return all_to_all_in_place(start);
            case 8:
                return all_to_all_v(start);
            case 9:
                return shift(1, Edge::wrap, start);
            case 10:
                return shift(-2, Edge::wrap, start);
            case 11:
                return shift(1, Edge::open, start);
            case 12:
                return shift_in_place(1, Edge::wrap, start);
            case 13:
                return shift_in_place(-1, Edge::open, start);
            case 14:
                return shift_in_place(0, Edge::open, start);
            case 15:
                return nothing(RANKMESH_CALL(barrier));
            case 16:
                return nothing(RANKMESH_CALL(monitored_barrier));
            case 17:
                return send_recv(1, start);
            case 18:
                return send_recv(-2, start);
            case 19:
                return send_recv(size_, start);  // to oneself
            case 20:
                return pairs(start);
            case 21:
                return messages(both_ways(), start);
            default:
                return messages(to_all(), start);
        }
    }

    /// Every operation with the reduction R, if R makes sense on T.
    template <class R>
    std::vector<Running> reduce_by(R, int root, bool start) {
        if constexpr (rankmesh::Reduces<R, T>) {
            constexpr auto dtype = rankmesh::detail::dtype_for<T>();
            if (!takes(rankmesh::detail::Operation::all_reduce, R::value, dtype)) return {};
            auto calls = Reductions{};
            calls.all_reduce = [](Communicator& on_, V& in, V& out, int, bool start) {
                return RANKMESH_CALL(all_reduce, in, out, R{});
            };
            calls.all_reduce_in_place = [](Communicator& on_, V& in, V&, int, bool start) {
                return RANKMESH_CALL(all_reduce, in, R{});
            };
            calls.reduce = [](Communicator& on_, V& in, V& out, int to, bool start) {
                return RANKMESH_CALL(reduce, in, out, R{}, to);
            };
            calls.reduce_in_place = [](Communicator& on_, V& in, V&, int to, bool start) {
                return RANKMESH_CALL(reduce, in, R{}, to);
            };
            calls.reduce_scatter = [](Communicator& on_, V& in, V& out, int, bool start) {
                return RANKMESH_CALL(reduce_scatter, in, out, R{});
            };
            calls.reduce_scatter_in_place = [](Communicator& on_, V& in, V&, int, bool start) {
                return RANKMESH_CALL(reduce_scatter, in, R{});
            };
            if constexpr (rankmesh::Scans<R, T>) {
                calls.scan = [](Communicator& on_, V& in, V& out, int, bool start) {
                    return RANKMESH_CALL(scan, in, out, R{});
                };
                calls.scan_in_place = [](Communicator& on_, V& in, V&, int, bool start) {
                    return RANKMESH_CALL(scan, in, R{});
                };
                calls.exclusive_scan = [](Communicator& on_, V& in, V& out, int, bool start) {
                    return RANKMESH_CALL(exclusive_scan, in, out, R{});
                };
                calls.exclusive_scan_in_place = [](Communicator& on_, V& in, V&, int, bool start) {
                    return RANKMESH_CALL(exclusive_scan, in, R{});
                };
            }
            if (!takes(rankmesh::detail::Operation::scan, R::value, dtype)) calls.scan = nullptr;
            return reductions(R::value, calls, root, start);
        } else {
            return {};
        }
    }

    /// Every operation, those with a root from the first and from the last.
    std::vector<Running> all(bool start) {
        auto made = std::vector<Running>{};
        auto root = start ? size_ - 1 : 0;
        const auto add = [&](auto reduction) {
            root = size_ - 1 - root;
            for (auto& each : reduce_by(reduction, root, start)) made.push_back(std::move(each));
        };
        add(rankmesh::sum), add(rankmesh::prod), add(rankmesh::min), add(rankmesh::max), add(rankmesh::mean);
        add(rankmesh::bit_and), add(rankmesh::bit_or), add(rankmesh::bit_xor);
        add(rankmesh::logical_and), add(rankmesh::logical_or), add(rankmesh::logical_xor);
        add(rankmesh::reproducible_sum);
        for (int which = 0; which < moves; ++which) {
            made.push_back(move(which, 0, start));
            if (which >= 3 && which <= 5) made.push_back(move(which, size_ - 1, start));
        }
        return made;
    }

    /// Any messages, as one batch; every member is given the same list, and calls its own ends in that order.
    /// With tags, what is received is listed in another order than what is sent.
    Running messages(const std::vector<Message>& list, bool start, bool tagged = false) {
        struct Mail {
            std::vector<V> sent;
            std::vector<V> got;
            std::vector<V> wanted;
        };
        auto mail = std::make_shared<Mail>();
        for (std::size_t k = 0; k < list.size(); ++k) {
            const auto from = ranks_[static_cast<std::size_t>(list[k].from)];
            const auto count = count_ + k % 3;
            auto text = V(count, [&](std::size_t i) { return mark<T>(from, i + 100 * k); });
            if (list[k].from == on_.rank()) mail->sent.push_back(text);
            if (list[k].to != on_.rank()) continue;
            mail->got.push_back(blank<V>(count));
            mail->wanted.push_back(std::move(text));
        }
        const auto call = [&] {
            auto sent = mail->sent.begin();
            auto got = mail->got.begin();
            auto last = mail->got.end();
            for (std::size_t k = 0; k < list.size(); ++k) {
                if (list[k].from == on_.rank()) on_.send(*sent++, list[k].to, tagged ? k : 0);
                if (list[k].to == on_.rank() && !tagged) on_.recv(*got++, list[k].from);
            }
            for (auto k = list.size(); tagged && k-- > 0;)
                if (list[k].to == on_.rank()) on_.recv(*--last, list[k].from, k);
        };
        auto made = nothing(RANKMESH_CALL(batch, call));
        made.verify = [mail] {
            for (std::size_t i = 0; i < mail->got.size(); ++i)
                expect_same(mail->got[i], mail->wanted[i], "message " + std::to_string(i));
        };
        return made;
    }

private:
    struct Exchange {
        std::string what;
        V in = V();
        V out = V();
        V want_in = V();
        V want_out = V();
        std::size_t first = 0;  // the elements of `in` that are defined afterwards
        std::size_t last = std::size_t(-1);
    };
    using Shared = std::shared_ptr<Exchange>;
    /// The calls with one reduction: all that is compiled once for each.
    struct Reductions {
        using Function = Pending (*)(Communicator& on, V& in, V& out, int root, bool start);
        Function all_reduce = nullptr;
        Function all_reduce_in_place = nullptr;
        Function reduce = nullptr;
        Function reduce_in_place = nullptr;
        Function reduce_scatter = nullptr;
        Function reduce_scatter_in_place = nullptr;
        Function scan = nullptr;  // null: there is none
        Function scan_in_place = nullptr;
        Function exclusive_scan = nullptr;
        Function exclusive_scan_in_place = nullptr;
    };

    std::vector<Running> reductions(Reduction by, const Reductions& calls, int root, bool start) {
        auto made = std::vector<Running>{};
        const auto result = [&](std::size_t i) { return reduced<T>(ranks_, i, by); };
        const auto begin = [&](std::string_view operation, std::size_t in, std::size_t out) {
            auto b = exchange(std::string(operation) + " by " + std::string(to_string(by)));
            b->in = V(in, [&](std::size_t i) { return payload<T>(by, me_, i); });
            b->want_in = b->in;
            b->out = blank<V>(out);
            return b;
        };
        const auto add = [&](const Shared& b, typename Reductions::Function call) {
            made.push_back(running(b, call(on_, b->in, b->out, root, start)));
        };
        auto b = begin("all_reduce", count_, count_);
        b->want_out = V(count_, result);
        add(b, calls.all_reduce);

        b = begin("all_reduce in place", count_, 0);
        b->want_in = V(count_, result);
        add(b, calls.all_reduce_in_place);

        b = begin("reduce", count_, 0);
        room(b, root, count_);
        if (root == on_.rank()) b->want_out = V(count_, result);
        add(b, calls.reduce);

        b = begin("reduce in place", count_, 0);
        if (root == on_.rank()) b->want_in = V(count_, result);
        add(b, calls.reduce_in_place);

        b = begin("reduce_scatter", count_ * n_, count_);
        b->want_out = V(count_, [&](std::size_t i) { return result(r_ * count_ + i); });
        add(b, calls.reduce_scatter);

        b = begin("reduce_scatter in place", count_ * n_, 0);
        b->want_in = V(count_ * n_, result);
        b->first = r_ * count_;
        b->last = b->first + count_;
        add(b, calls.reduce_scatter_in_place);
        if (!calls.scan) return made;

        const auto before = std::vector<int>(ranks_.begin(), ranks_.begin() + on_.rank() + 1);
        const auto prefix = [&](std::size_t i) { return reduced<T>(before, i, by); };
        b = begin("scan", count_, count_);
        b->want_out = V(count_, prefix);
        add(b, calls.scan);

        b = begin("scan in place", count_, 0);
        b->want_in = V(count_, prefix);
        add(b, calls.scan_in_place);

        const auto below = std::vector<int>(before.begin(), before.end() - 1);
        const auto exclusive = [&](std::size_t i) {
            return below.empty() ? of_nothing<T>(by) : reduced<T>(below, i, by);
        };
        b = begin("exclusive_scan", count_, count_);
        b->want_out = V(count_, exclusive);
        add(b, calls.exclusive_scan);

        b = begin("exclusive_scan in place", count_, 0);
        b->want_in = V(count_, exclusive);
        add(b, calls.exclusive_scan_in_place);
        return made;
    }

    static Shared exchange(std::string what) {
        auto made = std::make_shared<Exchange>();
        made->what = std::move(what);
        return made;
    }
    /// This rank's marks to send, and blank room.
    Shared exchange(std::string what, std::size_t in, std::size_t out) const {
        auto b = exchange(std::move(what));
        b->in = marks(in);
        b->want_in = b->in;
        b->out = blank<V>(out);
        b->want_out = b->out;
        return b;
    }
    V marks(std::size_t count) const {
        return V(count, [&](std::size_t i) { return mark<T>(me_, i); });
    }
    /// Memory for the root; the others have none if the root is the first, else some that must stay.
    void room(const Shared& b, int root, std::size_t count) const {
        b->out = blank<V>(on_.rank() == root || root != 0 ? count : 0);
        b->want_out = b->out;
    }
    static Running running(const Shared& b, Pending pending) {
        auto made = nothing(std::move(pending));
        made.verify = [b] {
            expect_same(b->in, b->want_in, b->what, b->first, std::min(b->last, b->in.size()));
            expect_same(b->out, b->want_out, b->what);
        };
        return made;
    }
    static Running nothing(Pending pending) {
        auto made = Running{};
        made.pending.push_back(std::move(pending));
        made.verify = [] {};
        return made;
    }
    int group_rank(std::int64_t at) const { return static_cast<int>((at % size_ + size_) % size_); }
    V marks_of(int group_rank, std::size_t count) const {
        const auto from = ranks_[static_cast<std::size_t>(group_rank)];
        return V(count, [&](std::size_t i) { return mark<T>(from, i); });
    }
    /// Element `i % count` of member `i / count`.
    V gathered() const {
        return V(count_ * n_, [&](std::size_t i) { return mark<T>(ranks_[i / count_], i % count_); });
    }

    Running all_gather(bool start) {
        auto b = exchange("all_gather", count_, count_ * n_);
        b->want_out = gathered();
        return running(b, RANKMESH_CALL(all_gather, b->in, b->out));
    }
    Running all_gather_in_place(bool start) {
        auto b = exchange("all_gather in place", 0, count_ * n_);
        for (std::size_t i = 0; i < count_; ++i) b->out[r_ * count_ + i] = mark<T>(me_, i);
        b->want_out = gathered();
        return running(b, RANKMESH_CALL(all_gather, b->out));
    }
    Running all_gather_v(bool start) {
        auto counts = std::vector<std::size_t>{};
        auto all = std::vector<std::pair<int, std::size_t>>{};  // the rank whose element is next
        for (std::size_t from = 0; from < n_; ++from) {
            counts.push_back(count_ * ((from + 1) % 3) + from % 2);
            for (std::size_t i = 0; i < counts.back(); ++i) all.emplace_back(ranks_[from], i);
        }
        auto b = exchange("all_gather_v", counts[r_], all.size());
        b->want_out = V(all.size(), [&](std::size_t i) { return mark<T>(all[i].first, all[i].second); });
        return running(b, RANKMESH_CALL(all_gather_v, b->in, b->out, counts));
    }
    Running broadcast(int root, bool start) {
        auto b = exchange("broadcast", count_, 0);
        b->want_in = marks_of(root, count_);
        return running(b, RANKMESH_CALL(broadcast, b->in, root));
    }
    Running gather(int root, bool start) {
        auto b = exchange("gather", count_, 0);
        room(b, root, count_ * n_);
        if (root == on_.rank()) b->want_out = gathered();
        return running(b, RANKMESH_CALL(gather, b->in, b->out, root));
    }
    Running scatter(int root, bool start) {
        const auto is_root = root == on_.rank();
        auto b = exchange("scatter", is_root || root != 0 ? count_ * n_ : 0, count_);
        const auto from = on_.world_rank(root);
        b->want_out = V(count_, [&](std::size_t i) { return mark<T>(from, r_ * count_ + i); });
        return running(b, RANKMESH_CALL(scatter, b->in, b->out, root));
    }
    V crossed() const {
        return V(count_ * n_,
                 [&](std::size_t i) { return mark<T>(ranks_[i / count_], r_ * count_ + i % count_); });
    }
    Running all_to_all(bool start) {
        auto b = exchange("all_to_all", count_ * n_, count_ * n_);
        b->want_out = crossed();
        return running(b, RANKMESH_CALL(all_to_all, b->in, b->out));
    }
    Running all_to_all_in_place(bool start) {
        auto b = exchange("all_to_all in place", count_ * n_, 0);
        b->want_in = crossed();
        return running(b, RANKMESH_CALL(all_to_all, b->in));
    }
    Running all_to_all_v(bool start) {
        const auto length = [&](std::size_t from, std::size_t to) {
            return count_ * ((from + 2 * to + 1) % 3) + (from + 1) * to % 2;
        };
        auto in_counts = std::vector<std::size_t>{};
        auto out_counts = std::vector<std::size_t>{};
        auto sent = std::size_t{0};
        auto all = std::vector<std::pair<int, std::size_t>>{};
        for (std::size_t other = 0; other < n_; ++other) {
            in_counts.push_back(length(r_, other));
            sent += in_counts.back();
            out_counts.push_back(length(other, r_));
            auto at = std::size_t{0};
            for (std::size_t to = 0; to < r_; ++to) at += length(other, to);
            for (std::size_t i = 0; i < out_counts.back(); ++i) all.emplace_back(ranks_[other], at + i);
        }
        auto b = exchange("all_to_all_v", sent, all.size());
        b->want_out = V(all.size(), [&](std::size_t i) { return mark<T>(all[i].first, all[i].second); });
        return running(b, RANKMESH_CALL(all_to_all_v, b->in, in_counts, b->out, out_counts));
    }
    /// What the member `by` group ranks before has, or `otherwise`.
    V shifted(int by, Edge edge, const V& otherwise) const {
        const auto from = on_.rank() - by;
        if (edge == Edge::open && (from < 0 || from >= size_)) return otherwise;
        return marks_of(group_rank(from), count_);
    }
    Running shift(int by, Edge edge, bool start) {
        auto b = exchange("shift", count_, count_);
        b->want_out = shifted(by, edge, b->out);
        return running(b, RANKMESH_CALL(shift, b->in, b->out, by, edge));
    }
    Running shift_in_place(int by, Edge edge, bool start) {
        auto b = exchange("shift in place", count_, 0);
        b->want_in = shifted(by, edge, b->in);
        return running(b, RANKMESH_CALL(shift, b->in, by, edge));
    }
    /// Everyone sends `by` group ranks on.
    Running send_recv(int by, bool start) {
        auto b = exchange("send_recv", count_, count_);
        b->want_out = shifted(by, Edge::wrap, b->out);
        return running(b, RANKMESH_CALL(send_recv, b->in, group_rank(on_.rank() + by), b->out,
                                        group_rank(on_.rank() - by)));
    }
    /// 0 and 1, 2 and 3, ... exchange, the lower one sending first.
    Running pairs(bool start) {
        const auto other = on_.rank() ^ 1;
        if (other >= size_) return nothing({});
        auto b = exchange("send and recv", count_, count_);
        b->want_out = marks_of(other, count_);
        auto made = running(b, {});
        const auto lower = on_.rank() < other;
        if (lower) made.pending.push_back(RANKMESH_CALL(send, b->in, other));
        made.pending.push_back(RANKMESH_CALL(recv, b->out, other));
        if (!lower) made.pending.push_back(RANKMESH_CALL(send, b->in, other));
        return made;
    }
    /// Everyone to both neighbours of a ring: with two members twice to the same, alone to oneself.
    std::vector<Message> both_ways() const {
        auto list = std::vector<Message>{};
        for (int from = 0; from < size_; ++from) list.push_back({from, group_rank(from + 1)});
        for (int from = 0; from < size_; ++from) list.push_back({from, group_rank(from - 1)});
        return list;
    }
    /// Everyone to everyone, oneself too.
    std::vector<Message> to_all() const {
        auto list = std::vector<Message>{};
        for (int from = 0; from < size_; ++from)
            for (int to = 0; to < size_; ++to) list.push_back({from, to});
        return list;
    }

    Communicator& on_;
    std::vector<int> ranks_;
    std::size_t n_;
    int size_;
    std::size_t r_;  // this member's group rank
    int me_;
    std::size_t count_;
};

#undef RANKMESH_CALL

/// Every operation, once blocking and once with all of them in flight together.
template <class T, class V = Values<T>>
void check_all(Communicator& on, int me, std::size_t count) {
    SCOPED_TRACE(on.label() + ", rank " + std::to_string(me) + ", " + std::to_string(count) + " elements");
    auto suite = Suite<T, V>(on, me, count);
    for (auto& done : suite.all(false)) done.finish();
    auto flying = suite.all(true);
    for (auto it = flying.rbegin(); it != flying.rend(); ++it) it->finish();
}

// What many tests ask for is compiled once.
extern template void check_all<std::int32_t>(Communicator&, int, std::size_t);
extern template void check_all<std::int64_t>(Communicator&, int, std::size_t);
extern template void check_all<float>(Communicator&, int, std::size_t);
extern template void check_all<double>(Communicator&, int, std::size_t);

}  // namespace operations

template <class T>
struct rankmesh::buffer_traits<operations::Scattered<T>> {
    static T* data(const operations::Scattered<T>& buffer) { return buffer.view().data(); }
    static std::size_t size(const operations::Scattered<T>& buffer) { return buffer.size(); }
    static auto extents(const operations::Scattered<T>& buffer) { return buffer.view().extents(); }
    static auto strides(const operations::Scattered<T>& buffer) { return buffer.view().strides(); }
};
