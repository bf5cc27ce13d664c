// SPDX-License-Identifier: Apache-2.0
#include "engine/packed.hpp"
#include "engine/access.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

using namespace rankmesh;
using detail::Call;
using detail::Label;
using detail::Operation;

namespace {

/// A channel that only lends memory.
class Lender : public detail::Channel {
public:
    void run(const Call&, const Label&, detail::Duration) override {}
    std::uint64_t start(std::span<const Call>, const Label&) override { return 0; }
    void wait(std::uint64_t, const Label&, detail::Duration) override {}
    bool done(std::uint64_t) override { return true; }
    void leave(std::uint64_t, const Label&) noexcept override {}
    void leave() noexcept override {}
};

constexpr auto ranks = std::size_t{3};

detail::CommunicatorState line() {
    const auto mesh = Mesh{{"dp", static_cast<int>(ranks)}};
    const auto label = Label{.mesh = to_string(mesh),
                             .name = "",
                             .axes = "dp",
                             .member = "dp=0",
                             .ranks = {mesh.group(0, mesh.axes("dp"))}};
    return {.world = nullptr,
            .channel = std::make_shared<Lender>(),
            .label = std::make_shared<const Label>(label),
            .timeout = detail::Duration::max(),
            .size = static_cast<int>(ranks)};
}

/// Which buffers a call carries: all bytes of buffer i hold i.
std::vector<std::size_t> carried(const Call& call, const std::vector<std::size_t>& bytes) {
    auto found = std::vector<std::size_t>{};
    const auto* data = static_cast<const std::uint8_t*>(call.in);
    for (std::size_t at = 0; at < call.in_bytes(); at += bytes[found.back()]) {
        found.push_back(data[at]);
        for (std::size_t i = at; i < std::min(at + bytes[data[at]], call.in_bytes()); ++i)
            EXPECT_EQ(data[i], data[at]) << "a buffer is sent whole";
    }
    return found;
}

/// Lists of random buffers of bytes and of floats, in buckets of random lengths.
void check(Operation operation, unsigned seed) {
    SCOPED_TRACE(detail::cat(to_string(operation), ", seed ", seed));
    const auto parts = operation == Operation::all_gather ? ranks : 1;
    auto random = std::mt19937(seed);
    const auto on = line();
    const auto limit = std::size_t{random() % 300};
    auto bytes = std::vector<std::size_t>{};
    auto whole = std::vector<std::vector<std::int8_t>>{};
    auto floats = std::vector<std::vector<float>>{};
    auto outs = std::vector<std::vector<std::int8_t>>{};
    auto float_outs = std::vector<std::vector<float>>{};
    for (auto* lists : {&whole, &outs}) lists->reserve(40);
    for (auto* lists : {&floats, &float_outs}) lists->reserve(40);
    auto ins = ConstBuffers();
    auto places = Buffers();
    for (std::size_t i = 0; i < 40; ++i) {
        const auto count = 1 + random() % 24;
        const auto add = [&]<class T>(std::vector<std::vector<T>>& in, std::vector<std::vector<T>>& out) {
            bytes.push_back(count * sizeof(T));
            in.emplace_back(count);
            std::memset(in.back().data(), static_cast<int>(i), bytes.back());
            out.emplace_back(count * parts);
            ins.add(in.back());
            places.add(out.back());
        };
        random() % 2 == 0 ? add(whole, outs) : add(floats, float_outs);
    }
    auto packed = detail::Packed({.operation = operation}, ins, places, {.bucket_bytes = limit}, on);
    const auto& pieces = detail::ListAccess::pieces(ins);
    auto times = std::map<std::size_t, int>{};
    auto full = std::map<DType, std::vector<std::pair<std::size_t, std::size_t>>>{};
    for (const auto& call : packed.pack(on)) {
        const auto own = carried(call, bytes);
        for (auto i : own) ++times[i];
        EXPECT_EQ(call.out_count, call.in_count * parts);
        if (own.size() > 1) {
            EXPECT_LE(call.in_bytes() * parts, limit) << "a bucket is no longer than was asked";
        }
        if (bytes[own.front()] * parts < limit) {
            const auto reduced = operation == Operation::all_reduce;
            full[reduced ? pieces[own.front()].dtype : DType::byte].emplace_back(own.front(),
                                                                                 call.in_bytes());
        }
        for (auto i : own)
            if (operation == Operation::all_reduce) {
                EXPECT_EQ(call.dtype, pieces[i].dtype);
            }
    }
    EXPECT_EQ(times.size(), bytes.size());
    for (const auto& [i, count] : times) EXPECT_EQ(count, 1) << "buffer " << i << " travels once";
    for (auto& [dtype, buckets] : full) {
        std::ranges::sort(buckets);
        for (std::size_t k = 1; k < buckets.size(); ++k)
            EXPECT_GT((buckets[k - 1].second + bytes[buckets[k].first]) * parts, limit)
                << "a bucket ends where the next buffer does not fit";
    }
}

}  // namespace

TEST(Packed, ABucketHoldsAllThatFitsAndNoMore) {
    for (unsigned seed = 0; seed < 100; ++seed)
        for (auto operation : {Operation::all_reduce, Operation::broadcast, Operation::all_gather})
            check(operation, seed);
}

TEST(Packed, WhatIsLongerThanIsWorthCopyingTravelsAsItIs) {
    const auto on = line();
    for (auto parts : {std::size_t{1}, ranks})
        for (auto extra : {std::size_t{0}, std::size_t{1}}) {
            const auto longest = (std::size_t{64} << 10) / parts + extra;
            auto in = std::vector<std::vector<std::int8_t>>(2, std::vector<std::int8_t>(longest));
            auto out = std::vector<std::vector<std::int8_t>>(2, std::vector<std::int8_t>(longest * parts));
            const auto operation = parts > 1 ? Operation::all_gather : Operation::all_reduce;
            const auto calls =
                detail::Packed({.operation = operation}, ConstBuffers(in), Buffers(out), {}, on).pack(on);
            EXPECT_EQ(calls.size(), 1 + extra) << parts;
        }
}
