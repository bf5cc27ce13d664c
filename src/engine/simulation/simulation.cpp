// SPDX-License-Identifier: Apache-2.0
#include "engine/simulation/simulation.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <utility>

#include <rankmesh/engine/world.hpp>

#include "engine/join/address_entries.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/simulation/replay.hpp"

namespace rankmesh {
namespace detail {
namespace {

constexpr auto most_shown = std::size_t{8};  // reasons in one text

/// What one rank has sent and asked.
struct Tally {
    std::int64_t bytes = 0;          // of the agreement
    std::int64_t address_bytes = 0;  // written and read
    std::int64_t connections = 0;    // and as many addresses read
    std::int32_t messages = 0;       // sent, or asked of the store, of the agreement
    std::int32_t address_requests = 0;
    std::int32_t creations = 0;  // messages by which groups are made
};

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

/// One rank of a simulated world: what engines do between ranks during a join, counted.
class SimulatedExchange final : public Exchange {
public:
    SimulatedExchange(Replay::Run& run, int size, JoinBy by, const std::vector<int>& local_ranks,
                      const StepCosts& costs, Tally& tally, Creations& creations)
        : run_(run),
          size_(size),
          by_(by),
          local_ranks_(local_ranks),
          costs_(costs),
          tally_(tally),
          creations_(creations) {
        if (by == JoinBy::store)
            rendezvous_ = Rendezvous::of_part(std::make_shared<SimulatedStore>(run, costs, tally), "",
                                              run.rank(), size, std::chrono::hours(24));
    }

    int rank() const override { return run_.rank(); }
    int size() const override { return size_; }
    const std::vector<int>& local_ranks() const override { return local_ranks_; }
    bool announces() const override { return by_ == JoinBy::store; }
    void announce(const std::string&, std::span<const ChannelRequest> requests) override {
        const auto counts = address_counts(requests);
        if (!run_.pass("announce", static_cast<double>(counts.written) * costs_.request)) return;
        tally_.address_requests += static_cast<std::int32_t>(counts.written);
        tally_.address_bytes += (counts.addresses + counts.read) * address_bytes;
    }
    void max(std::array<std::int64_t, 4>& values) override {
        if (rendezvous_) {
            values = max_over(*rendezvous_, values);
            return;
        }
        values = unpacked(gather(
            *this, [&](const std::string& beneath) { values = most_of(values, unpacked(beneath)); },
            [&] { return packed(values); }));
    }
    void send(int to, const std::string& bytes) override {
        if (rendezvous_) return rendezvous_->send(to, bytes);
        const auto number = numbers_[{rank(), to}]++;
        if (!run_.write(cat("message.", rank(), ".", to, ".", number), bytes, 0, costs_.message)) return;
        ++tally_.messages;
        tally_.bytes += static_cast<std::int64_t>(bytes.size());
    }
    std::string receive(int from) override {
        if (rendezvous_) return rendezvous_->receive(from, {});
        auto texts = std::vector<std::string>{};
        const auto name = cat("message.", from, ".", rank(), ".", numbers_[{from, rank()}]++);
        run_.read({&name, 1}, texts, 0);
        return std::move(texts.front());
    }
    void post(int, const std::string&) override {
        throw EngineFailure("a simulated world makes no groups at run time");
    }
    std::vector<std::pair<int, std::string>> collect(const std::string&, std::span<const int>,
                                                     std::chrono::steady_clock::time_point) override {
        throw EngineFailure("a simulated world makes no groups at run time");
    }
    std::shared_ptr<Channel> create(const ChannelRequest& request) override {
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
        return std::make_shared<Alone>();  // over which nothing is run
    }

    /// What was created in this run.
    const std::vector<ChannelRequest>& created() const { return created_; }

private:
    Replay::Run& run_;
    const int size_;
    const JoinBy by_;
    const std::vector<int>& local_ranks_;
    const StepCosts& costs_;
    Tally& tally_;
    Creations& creations_;
    std::unique_ptr<Rendezvous> rendezvous_;      // null without a store
    std::map<std::pair<int, int>, int> numbers_;  // of messages, by sender and receiver
    std::vector<ChannelRequest> created_;
};

/// One world while it is simulated.
class Simulation {
public:
    explicit Simulation(const SimulatedWorld& world)
        : world_(world),
          replay_(world.size),
          creations_(world.size),
          tallies_(static_cast<std::size_t>(world.size)) {}

    SimulationResult result() {
        auto result = SimulationResult{};
        replay_.run([&](Replay::Run& run) { join_as(run, result); });
        find_stuck(result);
        count(result.join);
        return result;
    }

private:
    const std::vector<int>& local_ranks(int rank) {
        const auto first = rank - rank % world_.ranks_per_host;
        if (local_.empty() || local_.front() != first) {
            local_.resize(static_cast<std::size_t>(std::min(world_.ranks_per_host, world_.size - first)));
            std::iota(local_.begin(), local_.end(), first);
        }
        return local_;
    }

    template <class Then>
    void join_once(Replay::Run& run, Tally& tally, Then&& then) {
        auto exchange = SimulatedExchange(run, world_.size, world_.by, local_ranks(run.rank()), world_.costs,
                                          tally, creations_);
        const auto between = world_.through ? world_.through(exchange) : nullptr;
        auto joining = Joining{
            .exchange = between ? *between : exchange, .key = "join 1", .timeout = WorldOptions{}.timeout};
        const auto joined = join(world_.plan(run.rank()), std::nullopt, joining);
        then(joined, exchange.created());
    }

    void join_as(Replay::Run& run, SimulationResult& result) {
        const auto rank = run.rank();
        try {
            join_once(run, tallies_[static_cast<std::size_t>(rank)],
                      [&](const auto& joined, const auto& created) {
                          if (world_.visit) world_.visit(rank, joined, created);
                      });
        } catch (const EngineFailure&) {  // of the simulation itself
            throw;
        } catch (const Error& error) {
            result.errors[error.what()].push_back(rank);
        }
    }

    /// The request of a creation, found by running its rank once more.
    ChannelRequest request_of(int rank, std::size_t number) {
        auto run = Replay::Run(replay_, rank);
        auto unused = Tally{};
        auto found = ChannelRequest{};
        try {
            join_once(run, unused, [&](const auto&, const auto& created) { found = created[number]; });
        } catch (const Error&) {
        }
        return found;
    }

    void find_stuck(SimulationResult& result) {
        for (const auto& [rank, entry] : replay_.waiting())
            result.stuck.push_back(
                {rank, {writer_of(entry)}, cat("for the entry '", entry, "', comparing plans")});
        const auto creates = creations_.match(replay_.progress(), [&](int size) {
            const auto& costs = world_.costs;
            return world_.by == JoinBy::store ? costs.request + (size - 1) * costs.connection
                                              : 2 * tree_rounds(size) * costs.message;
        });
        auto there = std::map<std::uint32_t, std::vector<int>>{};  // by group
        for (const auto& each : creates) there[each.group].push_back(each.rank);
        for (const auto& each : creates) {
            const auto request = request_of(each.rank, each.number);
            if (!request.label) continue;  // it has failed since
            auto missing = request.label->ranks.list();
            std::erase_if(missing, [&](int rank) { return contains(there[each.group], rank); });
            result.stuck.push_back({each.rank, std::move(missing),
                                    cat("making ", request.label->text(), ", group ",
                                        to_string(request.label->ranks), ", as '", request.key, "'")});
        }
        std::ranges::sort(result.stuck, {}, &Stuck::rank);
    }

    /// The rank that writes an entry: `message.3.0.0`, `step.0.up.5` and `step.0.down` say which.
    static int writer_of(std::string_view entry) {
        const auto is_message = entry.starts_with("message.");
        const auto digits = is_message ? entry.substr(8) : entry.substr(entry.rfind('.') + 1);
        auto rank = 0;
        std::from_chars(digits.data(), digits.data() + digits.size(), rank);
        return rank;
    }

    void count(SimulatedJoin& join) {
        auto rank = 0;
        const auto add = [&](SimulatedJoin::Count& count, std::int64_t value) {
            if (value > count.most) {
                count.most = value;
                count.rank = rank;
            }
            count.total += value;
        };
        for (const auto& each : tallies_) {
            add(join.messages, each.messages);
            add(join.bytes, each.bytes);
            add(join.creations, each.creations);
            add(join.address_requests, each.address_requests);
            add(join.address_bytes, each.address_bytes);
            add(join.connections, each.connections);
            ++rank;
        }
        for (const auto& each : replay_.progress()) {
            join.rounds = std::max(join.rounds, static_cast<int>(each.rounds));
            join.seconds = std::max(join.seconds, each.time);
        }
        if (world_.by == JoinBy::messages) return;
        // One store answers one request after the other.
        const auto requests = join.messages.total + join.address_requests.total;
        const auto bytes = join.bytes.total + join.address_bytes.total;
        const auto busy = static_cast<double>(requests) * world_.costs.served +
                          static_cast<double>(bytes) * world_.costs.served_byte;
        join.seconds = std::max(join.seconds, busy);
    }

    const SimulatedWorld& world_;
    Replay replay_;
    Creations creations_;
    std::vector<Tally> tallies_;  // by rank
    std::vector<int> local_;      // the ranks of the host of the last one that ran
};

}  // namespace

SimulationResult simulate(const SimulatedWorld& world) { return Simulation(world).result(); }

std::string to_text(const std::vector<Stuck>& stuck) {
    auto reasons = std::vector<std::pair<std::string, std::vector<int>>>{};
    for (const auto& each : stuck) {
        const auto reason = cat(ranks_text(each.missing), ", ", each.where);
        auto found = std::ranges::find(reasons, reason, [](const auto& known) { return known.first; });
        if (found == reasons.end()) {
            if (reasons.size() == most_shown) continue;
            found = reasons.insert(reasons.end(), {reason, {}});
        }
        found->second.push_back(each.rank);
    }
    return joined(reasons, "\n", [](const auto& each) {
        const auto& [reason, ranks] = each;
        return cat(ranks_text(ranks), ranks.size() == 1 ? " waits for " : " wait for ", reason);
    });
}

}  // namespace detail

SimulatedJoin simulate_join(const Plan& plan, int world, JoinBy by, const StepCosts& costs,
                            const std::function<void(int joined)>& progress) {
    if (world < 1)
        throw UsageError(
            detail::cat("a join of ", world, " ranks was to be simulated; a world has 1 or more"));
    auto simulated = detail::SimulatedWorld{
        .size = world, .by = by, .costs = costs, .plan = [&](int) -> const Plan& { return plan; }};
    auto joined = 0;
    if (progress) simulated.visit = [&](int, const auto&, const auto&) { progress(++joined); };
    const auto result = detail::simulate(simulated);
    if (!result.errors.empty()) throw UsageError(result.errors.begin()->first);
    if (!result.stuck.empty())
        throw EngineFailure(
            detail::cat("the join of ", world, " ranks does not end:\n", detail::to_text(result.stuck)));
    return result.join;
}

}  // namespace rankmesh
