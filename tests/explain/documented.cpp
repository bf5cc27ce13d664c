// SPDX-License-Identifier: Apache-2.0
// The records of docs/explain.md and docs/start-operator.md. RANKMESH_WRITE_RECORDS=1 writes those of
// rankmesh anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>

#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

#include "recorded_job.hpp"

namespace rankmesh::tests {
namespace {

namespace fs = std::filesystem;
const auto records = fs::path(RANKMESH_SOURCE "/tests/explain/records");

/// Rank 5 stops calling after its second step.
RecordedJob behind() {
    auto job = RecordedJob(Mesh{{"pp", 2}, {"dp", 2}, {"tp", 2}});
    for (int i = 0; i < 3; ++i) {
        job.all({{"tp"}});
        job.all({{"dp"}, "reduce_scatter"});
        job.all({{"pp"}, "broadcast", 1, "f32", "", 0});
    }
    job[5].resize(6);
    job.run();
    return job;
}

/// Rank 3 gathers where the others reduce.
RecordedJob mismatch() {
    auto job = RecordedJob(Mesh{{"dp", 3}, {"tp", 2}});
    job.all({{"dp"}});
    job.all({{"tp"}});
    job[3][1] = {{"tp"}, "all_gather", 4, "f32", ""};
    job.run();
    return job;
}

/// Rank 1 calls over all ranks before it calls along tp.
RecordedJob crossed() {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"tp"}});
    job.all({{"dp", "tp"}, "all_gather", 2, "f32", ""});
    std::swap(job[1][0], job[1][1]);
    job.run();
    return job;
}

std::string content_of(const fs::path& path) {
    auto stream = std::ifstream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(DocumentedRecords, AreThoseOfThesePrograms) {
    for (const auto& [name, job, without] : {std::tuple{"lost", behind(), std::vector{5}},
                                             std::tuple{"mismatch", mismatch(), std::vector<int>{}},
                                             std::tuple{"crossed", crossed(), std::vector<int>{}}}) {
        if (std::getenv("RANKMESH_WRITE_RECORDS")) job.write(records / name, without);
        for (int rank = 0; rank < job.size(); ++rank)
            if (std::ranges::find(without, rank) == without.end()) {
                const auto file = records / name / ("rank-" + std::to_string(rank) + ".json");
                EXPECT_EQ(content_of(file), job.record(rank)) << file;
            }
    }
}

TEST(DocumentedRecords, OfPyTorchsGlooAreReadAndExplained) {
    // Written by PyTorch 2.13 itself: rank 1 did not call all_reduce along tp a third time.
    const auto found = read_records({(records / "torch").string()});
    ASSERT_EQ(found.records.size(), 4U);
    const auto said = explain(found.records, found.unread, Mesh{{"dp", 2}, {"tp", 2}});
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_EQ(said.findings.front().kind, Finding::Kind::behind);
    EXPECT_EQ(said.findings.front().ranks, std::vector{1});
    EXPECT_EQ(said.findings.front().axes, "tp");
    EXPECT_EQ(said.findings.front().call, 3);
}

}  // namespace
}  // namespace rankmesh::tests
