// SPDX-License-Identifier: Apache-2.0
// Who makes a job slow, in simulated jobs: their calls take what the model of the test says.
#include <rankmesh/explain/slow.hpp>

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>

#include <rankmesh/core/mesh.hpp>

#include "explain/words.hpp"

namespace rankmesh::tests {
namespace {

const auto meshes = {"dp=4 tp=2", "pp=2 dp=2 tp=2", "dp=8", "dp=2 cp=2 tp=4"};

/// What is wrong with a job.
struct Fault {
    enum class Kind : std::uint8_t { none, rank, host, link, pause } kind = Kind::none;
    std::set<int> ranks = {};
    double seconds = 0;  ///< more, before or in each call
};

/// Who wrote the records, and what of the times they have.
enum class Source : std::uint8_t {
    blocking,
    started,   ///< by rankmesh, of calls that are started: the calls of PyTorch's groups
    measured,  ///< by PyTorch's NCCL: calls are enqueued at once, and their ends noticed up to 0.1 s later
    gloo       ///< by PyTorch's Gloo: no ends
};

std::shared_ptr<const RecordedOperation> all_reduce(Source source) {
    auto made = RecordedOperation{};
    made.backend = source == Source::measured ? "nccl" : "gloo";
    made.operation = "all_reduce";
    made.reduction = "sum";
    made.input_sizes = {{4}};
    return std::make_shared<RecordedOperation>(made);
}

/// Records of a job whose ranks compute and then reduce along each axis, 20 times.
class SlowJob {
public:
    explicit SlowJob(unsigned seed, Fault fault = {}, Source source = Source::blocking)
        : mesh_(Mesh::parse(std::data(meshes)[seed % 4])),
          fault_(std::move(fault)),
          source_(source),
          random_(seed) {
        const auto size = static_cast<std::size_t>(mesh_.size());
        now_.resize(size);
        records_.resize(size);
        auto skew = std::uniform_real_distribution(-3.0, 3.0);
        for (int rank = 0; rank < mesh_.size(); ++rank) {
            auto& record = records_[at(rank)];
            record.rank = rank;
            record.world_size = mesh_.size();
            record.host = "host" + std::to_string(source == Source::gloo ? 0 : host_of(rank));
            record.is_torch = source >= Source::measured;
            record.engine = "gloo";
            record.meshes = {{.name = "", .mesh = to_string(mesh_), .placed = {}}};
            if (rank % 4 == 0) clock_.push_back(source == Source::gloo ? 0 : skew(random_));
        }
        for (step_ = 0; step_ < 20; ++step_)
            for (int axis = 0; axis < mesh_.axis_count(); ++axis) call(axis);
    }

    static int host_of(int rank) { return rank / 4; }
    const Mesh& mesh() const { return mesh_; }
    const std::vector<FlightRecord>& records() const { return records_; }

private:
    static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
    bool is_slow(int rank) const { return fault_.ranks.contains(rank); }

    void call(int axis) {
        auto noise = std::normal_distribution(0.0, 0.001);
        auto entered = std::vector<double>{};
        for (int rank = 0; rank < mesh_.size(); ++rank) {
            auto computes = (axis == 0 ? 0.05 : 0.005) + std::abs(noise(random_));
            if (is_slow(rank) && (fault_.kind == Fault::Kind::rank || fault_.kind == Fault::Kind::host))
                computes += fault_.seconds;
            if (is_slow(rank) && fault_.kind == Fault::Kind::pause && step_ == 11 && axis == 0)
                computes += 40 * fault_.seconds;
            entered.push_back(now_[at(rank)] + computes);
        }
        const auto name = mesh_.name(AxisId{axis});
        for (const auto group : mesh_.partition(name)) {
            auto last = 0.0;
            auto slow = true;
            for (const auto rank : group) {
                last = std::max(last, entered[at(rank)]);
                slow = slow && is_slow(rank);
            }
            const auto transfer = 0.004 + std::abs(noise(random_)) +
                                  (slow && fault_.kind == Fault::Kind::link ? fault_.seconds : 0);
            for (const auto rank : group) {
                now_[at(rank)] = last + transfer + std::abs(noise(random_)) / 4;
                add(rank, axis, group, entered[at(rank)]);
            }
        }
    }

    void add(int rank, int axis, const rankmesh::Group& group, double entered) {
        const auto text = to_string(group);
        auto& known = groups_[text + std::string(mesh_.name(AxisId{axis}))];
        if (!known)
            known = std::make_shared<RecordedGroup>(RecordedGroup{
                .name = std::to_string(axis) + text,
                .description = "'" + std::string(mesh_.name(AxisId{axis})) + "' of mesh " + to_string(mesh_),
                .axes = std::string(mesh_.name(AxisId{axis})),
                .ranks = {group.begin(), group.end()}});
        const auto time = [&](double seconds) {
            const auto ticks =
                static_cast<std::int64_t>((seconds + clock_[at(host_of(rank))]) * 250);  // of 4 ms
            return 1'760'000'000'000'000'000 + ticks * 4'000'000;
        };
        auto& record = records_[at(rank)];
        auto entry = RecordedEntry{.id = std::ssize(record.entries),
                                   .number = step_ + 1,
                                   .group = known,
                                   .call = call_,
                                   .created_ns = time(entered),
                                   .completed_ns = time(now_[at(rank)]),
                                   .state = RecordedState::completed,
                                   .is_end_assumed = source_ == Source::gloo,
                                   .blocking = source_ != Source::started};
        if (source_ == Source::gloo) entry.completed_ns = 0;
        if (source_ == Source::measured) {
            entry.created_ns = time(0);
            entry.completed_ns = time(now_[at(rank)] + noticed_(random_));
            entry.duration_ns = static_cast<std::int64_t>((now_[at(rank)] - entered) * 1e9);
        }
        record.entries.push_back(std::move(entry));
    }

    Mesh mesh_;
    Fault fault_;
    Source source_;
    std::mt19937 random_;
    std::uniform_real_distribution<> noticed_{0, 0.1};
    std::vector<double> now_;
    std::vector<double> clock_;
    std::vector<FlightRecord> records_;
    std::map<std::string, std::shared_ptr<const RecordedGroup>> groups_;
    std::shared_ptr<const RecordedOperation> call_ = all_reduce(source_);
    int step_ = 0;
};

Fault fault_of(unsigned seed) {
    auto random = std::mt19937(seed);
    auto fault = Fault{.kind = static_cast<Fault::Kind>(seed / 4 % 5)};
    const auto mesh = SlowJob(seed).mesh();
    const auto rank = static_cast<int>(random() % static_cast<unsigned>(mesh.size()));
    fault.seconds = std::uniform_real_distribution(0.01, 0.06)(random);
    const auto axis = mesh.name(AxisId{mesh.axis_count() - 1});
    if (fault.kind == Fault::Kind::host)
        for (int other = 0; other < mesh.size(); ++other) {
            if (SlowJob::host_of(other) == SlowJob::host_of(rank)) fault.ranks.insert(other);
        }
    else if (fault.kind == Fault::Kind::link)
        for (const auto other : mesh.group(rank, axis)) fault.ranks.insert(other);
    else if (fault.kind != Fault::Kind::none)
        fault.ranks = {rank};
    return fault;
}

/// How many of 500 jobs have a fault, in how many it is found, and how many findings are right, of all.
std::array<int, 4> found_by(Source source) {
    auto found = std::array<int, 4>{};
    for (auto seed = 0U; seed < 500; ++seed) {
        const auto fault = fault_of(seed);
        const auto job = SlowJob(seed, fault, source);
        // A link of the only group of its kind is like no other, and without ends links take no time.
        if (fault.kind == Fault::Kind::link &&
            (source == Source::gloo || static_cast<int>(fault.ranks.size()) == job.mesh().size()))
            continue;
        const auto report = explain_slow(job.records());
        found[0] += fault.kind != Fault::Kind::none;
        auto one = false;
        for (const auto& finding : report.findings) {
            const auto ranks = std::set<int>(finding.ranks.begin(), finding.ranks.end());
            const auto is_right =
                ranks == fault.ranks &&
                (finding.kind == SlowFinding::Kind::transfers) == (fault.kind == Fault::Kind::link) &&
                (finding.kind == SlowFinding::Kind::paused) == (fault.kind == Fault::Kind::pause);
            found[2] += is_right;
            ++found[3];
            one = one || is_right;
        }
        found[1] += one;
    }
    return found;
}

using Found = std::array<int, 4>;

TEST(Slow, FindsTheRankTheHostAndTheLinkOf500Jobs) {
    EXPECT_EQ(found_by(Source::blocking), (Found{375, 375, 375, 378})) << "docs/explain.md has these numbers";
    EXPECT_EQ(found_by(Source::started), (Found{375, 375, 375, 378}));
}

TEST(Slow, FindsThemInDumpsOfPyTorch) {
    EXPECT_EQ(found_by(Source::measured), (Found{375, 372, 372, 377})) << "docs/explain.md has these numbers";
    EXPECT_EQ(found_by(Source::gloo), (Found{300, 300, 300, 300}));
}

TEST(Slow, NamesTheHostOrTheUnitIfExactlyItsRanksAreSlow) {
    const auto fault = Fault{.kind = Fault::Kind::host, .ranks = {4, 5, 6, 7}, .seconds = 0.05};
    const auto job = SlowJob(0, fault);
    const auto told = [&](const std::optional<Cluster>& cluster) {
        return explain_slow(job.records(), {}, cluster).findings.at(0).text;
    };
    EXPECT_TRUE(told({}).starts_with("host host1, ranks {4 (dp=2 tp=0), ")) << told({});
    const auto cluster = Cluster::parse("rack:2 gpu:4");
    EXPECT_TRUE(told(cluster).starts_with("rack 1, ranks {4 (dp=2 tp=0), ")) << told(cluster);
    EXPECT_LT(explain_slow(job.records()).clock_error, 0.008);
    EXPECT_FALSE(explain_slow({}).doubts.empty());
}

TEST(Slow, TimesHaveThreeDigitsAndNoExponent) {
    using detail::explaining::time_text;
    EXPECT_EQ(time_text(0.3 - 0.1 - 0.2), "0 us");
    EXPECT_EQ(time_text(12.34e-6), "12.3 us");
    EXPECT_EQ(time_text(0.99996e-3), "1 ms");
    EXPECT_EQ(time_text(0.09), "90 ms");
    EXPECT_EQ(time_text(0.99999), "1 s");
    EXPECT_EQ(time_text(1234.5), "1234 s");
}

}  // namespace
}  // namespace rankmesh::tests
