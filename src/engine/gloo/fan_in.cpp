// SPDX-License-Identifier: Apache-2.0
// Inputs that each rank combines itself, in the order of ranks.
#include <array>
#include <bit>

#include "engine/arithmetic.hpp"
#include "engine/combine.hpp"
#include "engine/gloo/channel.hpp"
#include "engine/gloo/transport/connection.hpp"

namespace rankmesh::detail {
namespace {

/// The bytes that one rank sends another at a time: the segments of all ranks stay in a core's cache while
/// they are combined, whatever the length. Whole elements of a function, if they are not of a power of two.
std::size_t segment_of(const Call& call, int members) {
    constexpr auto held = std::size_t{1} << 20;
    constexpr auto shortest = std::size_t{4096};
    auto segment = std::max(held / std::bit_ceil(static_cast<unsigned>(members)), shortest);
    if (call.function) {
        const auto element = call.unit * size_of(call.dtype);
        segment = std::max(segment / element, std::size_t{1}) * element;
    }
    return std::min(call.out_bytes(), segment);
}

class FanIn {
public:
    FanIn(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag,
          std::size_t stride)
        : call_(call),
          own_(static_cast<const char*>(call.in) + static_cast<std::size_t>(connections->rank) * stride),
          stride_(stride),
          slot_(first_slot(SlotKind::fan_in, tag)),
          members_(connections->size),
          member_(connections->rank),
          segment_(segment_of(call, connections->size)) {
        // The next segment is in flight while one is combined.
        for (auto& each : turns_) {
            if (&each != &turns_.front() && segment_ == call.out_bytes()) break;
            const auto size = segment_ * static_cast<std::size_t>(members_);
            each.held = std::make_unique_for_overwrite<char[]>(size);
            each.received = connections->buffer(each.held.get(), size);
            each.sent = connections->buffer(call.in, call.in_bytes());
        }
    }

    void run() {
        const auto bytes = call_.out_bytes();
        exchange(0);
        for (auto begin = std::size_t{0}; begin < bytes; begin += segment_) {
            if (begin + segment_ < bytes) exchange(begin + segment_);
            auto& turn = turn_of(begin);
            for (int i = 1; i < members_; ++i) turn.received->waitRecv();
            for (int i = 1; i < members_; ++i) turn.sent->waitSend();  // its buffer may be that of the result
            combine(turn.held.get(), begin);
        }
    }

private:
    /// The buffers of one segment; two are used in turn.
    struct Turn {
        std::unique_ptr<char[]> held;
        std::unique_ptr<::gloo::transport::UnboundBuffer> received;
        std::unique_ptr<::gloo::transport::UnboundBuffer> sent;
    };
    Turn& turn_of(std::size_t begin) { return turns_[begin / segment_ % 2]; }
    std::size_t length(std::size_t begin) const { return std::min(segment_, call_.out_bytes() - begin); }

    void exchange(std::size_t begin) {
        auto& turn = turn_of(begin);
        for (int i = 1; i < members_; ++i) {
            const auto from = (member_ + members_ - i) % members_;
            turn.received->recv(from, slot_, static_cast<std::size_t>(from) * segment_, length(begin));
        }
        for (int i = 1; i < members_; ++i) {
            const auto to = (member_ + i) % members_;
            turn.sent->send(to, slot_, static_cast<std::size_t>(to) * stride_ + begin, length(begin));
        }
    }

    void combine(char* held, std::size_t begin) {
        const auto count = length(begin) / size_of(call_.dtype);
        const auto at = [&](int i) {
            return i == member_ ? own_ + begin : held + static_cast<std::size_t>(i) * segment_;
        };
        if (is_own(call_.reduction)) {
            auto ins = std::vector<const void*>{};
            for (int i = 0; i < members_; ++i) ins.push_back(at(i));
            return detail::combine(call_, ins, static_cast<char*>(call_.out) + begin, count);
        }
        if (member_ == 0) std::memcpy(held, own_ + begin, length(begin));
        for (int i = 1; i < members_; ++i) reduce_into(call_.reduction, call_.dtype, at(i), held, count);
        std::memcpy(static_cast<char*>(call_.out) + begin, held, length(begin));
    }

    const Call& call_;
    const char* const own_;
    const std::size_t stride_;
    const std::uint64_t slot_;
    const int members_;
    const int member_;
    const std::size_t segment_;
    std::array<Turn, 2> turns_;
};

}  // namespace

void fan_in(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag,
            std::size_t stride) {
    FanIn(call, connections, tag, stride).run();
}

}  // namespace rankmesh::detail
