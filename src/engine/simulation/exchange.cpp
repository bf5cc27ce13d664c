// SPDX-License-Identifier: Apache-2.0
#include "engine/simulation/exchange.hpp"

#include <algorithm>
#include <bit>

#include "engine/join/address_entries.hpp"
#include "engine/join/gather.hpp"
#include "engine/membership/reduction.hpp"

namespace rankmesh::detail {
namespace {

/// The bytes by which a rank says where one peer reaches it: an endpoint, and whose it is.
constexpr auto address_bytes = std::int64_t{60};

/// A store whose entries are those of the world; it answers when what is asked for is there.
class SimulatedStore final : public Store {
public:
    SimulatedStore(Replay::Run& run, const StepCosts& costs, Tally& tally)
        : run_(run), costs_(costs), tally_(tally) {}

    bool set(const std::string& name, const std::string& text, Instant) override {
        if (run_.write(name, text, costs_.request, 0)) count(text.size());
        return true;
    }
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names, Instant) override {
        // Nobody writes what is asked for without waiting: that is where ranks fail or leave.
        return std::vector<std::optional<std::string>>(names.size());
    }
    std::vector<std::optional<std::string>> wait(const std::vector<std::string>& names, Instant,
                                                 Instant) override {
        auto texts = std::vector<std::string>{};
        const auto is_new = run_.read(std::span(names).first(names.size() - 1), texts, costs_.request);
        auto bytes = std::size_t{0};
        auto found = std::vector<std::optional<std::string>>{};
        for (auto& text : texts) {
            bytes += text.size();
            found.emplace_back(std::move(text));
        }
        found.emplace_back();
        if (is_new) count(bytes);
        return found;
    }
    bool can_wait() const override { return true; }
    void remove(const std::vector<std::string>&, Instant) noexcept override {
        if (run_.pass("remove", costs_.request)) count(0);
    }
    std::chrono::microseconds longest_pause() const override { return {}; }
    std::string text() const override { return "the simulated store"; }
    const std::string& job() const override { return job_; }

private:
    void count(std::size_t bytes) {
        ++tally_.messages;
        tally_.bytes += static_cast<std::int64_t>(bytes);
    }

    Replay::Run& run_;
    const StepCosts& costs_;
    Tally& tally_;
    const std::string job_ = "simulated";
};

/// The channel of a group, over which nothing is run.
class SimulatedChannel final : public Channel {
public:
    void run(const Call&, const Label&, Duration) override {}
    std::uint64_t start(std::span<const Call>, const Label&) override { return 0; }
    void wait(std::uint64_t, const Label&, Duration) override {}
    bool done(std::uint64_t) override { return true; }
    void leave(std::uint64_t, const Label&) noexcept override {}
    void leave() noexcept override {}
};

}  // namespace

int tree_rounds(int ranks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1))); }

SimulatedExchange::SimulatedExchange(Replay::Run& run, int size, JoinBy by,
                                     const std::vector<int>& local_ranks, const StepCosts& costs,
                                     Tally& tally, Creations& creations)
    : run_(run),
      size_(size),
      by_(by),
      local_ranks_(local_ranks),
      costs_(costs),
      tally_(tally),
      creations_(creations) {
    if (by == JoinBy::store)
        rendezvous_ = Rendezvous::of_part(std::make_shared<SimulatedStore>(run, costs, tally), "", run.rank(),
                                          size, std::chrono::hours(24));
}

void SimulatedExchange::announce(const std::string&, std::span<const ChannelRequest> requests) {
    const auto counts = address_counts(requests);
    if (!run_.pass("announce", static_cast<double>(counts.written) * costs_.request)) return;
    tally_.address_requests += static_cast<std::int32_t>(counts.written);
    tally_.address_bytes += (counts.addresses + counts.read) * address_bytes;
}

void SimulatedExchange::max(std::array<std::int64_t, 4>& values) {
    if (rendezvous_) {
        values = max_over(*rendezvous_, values);
        return;
    }
    values = unpacked(gather(
        *this, [&](const std::string& beneath) { values = most_of(values, unpacked(beneath)); },
        [&] { return packed(values); }));
}

void SimulatedExchange::send(int to, const std::string& bytes) {
    if (rendezvous_) return rendezvous_->send(to, bytes);
    const auto number = numbers_[{rank(), to}]++;
    if (!run_.write(cat("message.", rank(), ".", to, ".", number), bytes, 0, costs_.message)) return;
    ++tally_.messages;
    tally_.bytes += static_cast<std::int64_t>(bytes.size());
}

std::string SimulatedExchange::receive(int from) {
    if (rendezvous_) return rendezvous_->receive(from, {});
    auto texts = std::vector<std::string>{};
    const auto name = cat("message.", from, ".", rank(), ".", numbers_[{from, rank()}]++);
    run_.read({&name, 1}, texts, 0);
    return std::move(texts.front());
}

void SimulatedExchange::post(int, const std::string&) {
    throw EngineFailure("a simulated world makes no groups at run time");
}

std::vector<std::pair<int, std::string>> SimulatedExchange::collect(const std::string&, std::span<const int>,
                                                                    std::chrono::steady_clock::time_point) {
    throw EngineFailure("a simulated world makes no groups at run time");
}

std::shared_ptr<Channel> SimulatedExchange::create(const ChannelRequest& request) {
    const auto number = created_.size();
    created_.push_back(request);
    if (creations_.add(rank(), number, request)) {
        const auto peers = request.label->ranks.size() - 1;
        if (by_ == JoinBy::store) {
            ++tally_.address_requests;
            tally_.connections += peers;
        } else {
            tally_.creations += 2 * tree_rounds(peers + 1);
        }
    }
    return std::make_shared<SimulatedChannel>();
}

}  // namespace rankmesh::detail
