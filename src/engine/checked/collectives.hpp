// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>

#include "engine/channel.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {

/// What two ranks tell each other. `send` and `recv`: the type, length and tag of a message, by its sender
/// and its receiver. `refusal`: this rank waits in collective `number`, and calls nothing before it is over.
/// `question`: the receiver answers with a refusal once it waits in a collective. `end`: nothing more.
struct Notice {
    enum Kind : std::uint8_t { send, recv, refusal, question, end };
    Kind kind = send;
    DType dtype = DType::i32;
    std::uint16_t tag = 0;
    std::uint32_t unused = 0;
    std::uint64_t count = 0;  // in elements of `dtype`
    std::uint64_t unit = 1;
    std::uint64_t number = 0;  // of a message: among those of its kind to the same rank
};

/// A collective, or the send or receive of a message, in checked mode.
struct CheckedCall {
    OwnedCall call;  // a collective, a send or a recv
    const Label* label;
    std::uint64_t number = 0;            // among this member's collectives, or its messages
    bool blocks = false;                 // its caller runs it on the engine once it is settled
    bool all_block = false;              // and so do those of the other ranks
    bool meets = false;                  // a message that is compared with the collective of its peers
    bool settled = false;                // the calls match, or `error` says why they do not
    bool complete = false;               // its data came with the comparison
    std::exception_ptr error = nullptr;  // what its wait throws
    std::optional<std::uint64_t> ticket = std::nullopt;  // of the engine, once the engine has the call
    Notice notice = {};
    std::optional<std::uint64_t> notice_ticket = std::nullopt;  // the ticket of the notice
    std::uint64_t notice_order = 0;                             // among all notices to that rank
    bool from_any = false;  // a recv from any rank; once its sender is known, `call` is from that

    bool is_collective() const { return meets || !is_point_to_point(call.operation); }
    /// `all_reduce of 4 f32 by sum, call number 3`.
    std::string text() const;
};

/// Calls `body` with the call, or with the recv and the send of a send_recv: they are compared with different
/// peers. A send_recv of a rank with itself stays one call.
template <class Body>
void each_half(const Call& call, int group_rank, Body&& body) {
    if (call.operation != Operation::send_recv || call.argument == group_rank) return body(call);
    auto half = call;
    half.operation = Operation::recv;
    half.argument = call.source;
    body(half);
    half.operation = Operation::send;
    half.argument = call.argument;
    body(half);
}

/// What the ranks of a group compare of one collective: everything before `unit` must be equal on all
/// ranks.
struct CallFingerprint {
    Agreed call = {};
    std::int64_t from = -1;  // the first group rank whose length for this rank is not the expected one
    std::uint64_t given = 0;
    std::uint64_t expected = 0;
    std::uint64_t unit = 1;  // not compared: a struct may be as long as several numbers
};

/// For each kind of notice, the first and the last message to a rank that its sender or receiver gives up; 0:
/// none.
using GivenUp = std::array<std::array<std::uint64_t, 2>, 2>;

/// Compares the collectives of one group, one after the other, on a separate channel.
///
/// While calls match, a comparison costs a reduction of three numbers. In a small group on the host it is an
/// all_gather of the calls that also brings the data of short ones, which completes them. Operations with
/// counts add an exchange of one number each way and a second reduction. A step begins once the previous one
/// has completed on this rank, so all ranks take the same steps in the same order.
class Collectives {
public:
    /// `settle` is called for each part, in order. `on_host`: buffers are in the host's memory. Where calls
    /// differ, ranks exchange what each `gives_up`, by group rank, and `drop` takes what the others do.
    struct Parts {
        std::function<void(CheckedCall&)> settle;
        std::function<std::vector<GivenUp>()> gives_up;
        std::function<void(const std::vector<GivenUp>&)> drop;
    };
    Collectives(Channel& channel, const Ranks& ranks, int group_rank, bool on_host, Parts parts);

    void add(CheckedCall& part) { queue_.push_back(&part); }
    /// Advances without waiting.
    void advance();
    /// Waits for the current step of the first call; `is_interrupted` as for Channel::wait_for.
    void wait(Duration timeout, std::function<bool()> is_interrupted);
    /// The number of the first call.
    std::uint64_t first() const { return queue_.front()->number; }
    void withdraw(const CheckedCall& part) { std::erase(queue_, &part); }
    /// Ends a call whose difference is known with that, and forgets all others.
    void clear() {
        if (ticket_ && step_ == Step::informed) settle(disagreement());  // a rank is lost meanwhile
        queue_.clear();
        ticket_ = std::nullopt;
    }

private:
    enum class Step : std::uint8_t { calls, hashes, counts, complaints, details, informed };

    void begin();
    void conclude();
    void gather_calls();
    bool calls_are_equal();
    /// Goes on where all calls are equal.
    void agree() {
        if (traits(fingerprints_.call.operation).counts) return exchange_counts();
        if (gathers_calls_) {
            const auto own = data();
            if (own <= brought_) complete();
            learn(own);
        }
        match();
    }
    /// Settles a call that is equal on all ranks.
    void match() {
        queue_.front()->all_block = extremes_[2] == 0;
        settle(nullptr);
    }
    std::size_t data() const;
    void learn(std::size_t data);
    void complete();
    void compare_hashes(Step step);
    void exchange_counts();
    void complain();
    void gather_details();
    void give_up();
    void settle(std::exception_ptr error) {
        auto& part = *queue_.front();
        queue_.pop_front();
        part.error = std::move(error);
        parts_.settle(part);
    }
    void start(Step step, const Call& call) {
        step_ = step;
        ticket_ = channel_.start({&call, 1}, *queue_.front()->label);
    }
    std::exception_ptr disagreement() const;

    Channel& channel_;
    const Ranks ranks_;
    const int group_rank_;
    const bool gathers_calls_;
    std::size_t brought_;      // bytes of data that come with each call, where they suffice
    std::size_t longest_ = 0;  // data since the last choice
    int calls_in_window_ = 0;
    const Parts parts_;
    std::deque<CheckedCall*> queue_;
    std::optional<std::uint64_t> ticket_;  // of the step that is under way
    Step step_ = Step::calls;
    CallFingerprint fingerprints_;  // of the first part, as all below
    // The greatest of all ranks: a hash, its complement, and 1 of a rank whose caller does not wait.
    std::array<std::int64_t, 3> extremes_ = {};
    std::vector<std::uint64_t> given_;     // by group rank, the length that it sends to this one
    std::vector<std::uint64_t> expected_;  // the lengths that this one expects
    std::vector<std::uint64_t> giving_;
    std::vector<CallFingerprint> all_;
    std::vector<GivenUp> giving_up_;  // by this rank
    std::vector<GivenUp> given_up_;   // to this rank
    std::vector<char> own_;           // this rank's call, and its data
    std::vector<char> gathered_;      // the same of each rank
};

}  // namespace rankmesh::detail
