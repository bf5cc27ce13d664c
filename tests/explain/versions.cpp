// SPDX-License-Identifier: Apache-2.0
// Known faults of libraries: each is found by its versions and by its symptom, and the page shows what was
// tested.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include <rankmesh/core/error.hpp>

#include "explain/read/log.hpp"
#include "explain/read/versions.hpp"

namespace rankmesh::tests {
namespace {

using namespace of_versions;

bool has(const of_versions::Fault& fault, const std::string& version, std::string_view processor = {}) {
    return std::ranges::count(faults_of({{std::string(fault.library), version}}, processor), &fault) == 1;
}

/// Of each fault, a version that has it and one that has not, and a line of its log.
struct Sample {
    std::string inside, outside, line = {};
};

const std::string timeout =
    "[rank3]:[E1 Pro.cpp:6] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, ";

const Sample samples[] = {
    {"2.28.9", "2.29.3", timeout},
    {"2.29.2", "2.29.3", timeout},
    {"2.31.2", "2.32.3"},
    {"2.30.4", "2.30.7"},
    {"2.25.1", "2.26.2"},
    {"2.21.5", "2.22.3", timeout},
    {"2.19.3", "2.18.6",
     "1: n2:4827:6900 [4] bootstrap.cc:77 NCCL WARN Message truncated : received 256 bytes instead of 4"},
    {"2.18.1", "2.18.3"},
    {"2.17.1", "2.18.1"},
    {"2.13.0+cpu", "2.12.1"},
    {"4.1.4", "5.0.0rc1", "[v4.radia.run:00192] Read -1, expected 10024, errno = 1"},
    {"4.1.4", "4.1.5"},
    {"4.2.0", "4.1.2"},
    {"4.0.2", "4.1"},
};

/// What a log says of faults.
std::vector<std::string> said_by(const std::string& log) {
    auto reader = of_log::LogReader();
    auto stream = std::istringstream(log);
    EXPECT_TRUE(reader.read(stream, "job.log"));
    auto texts = std::vector<std::string>{};
    for (const auto& line : reader.lines()) texts.push_back(line.text);
    return texts;
}

std::string error_of(const std::string& text) {
    try {
        parse_versions(text);
    } catch (const UsageError& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST(KnownFaults, HoldForTheirVersionsAndAreNamedByTheirSymptoms) {
    ASSERT_EQ(std::size(samples), std::size(faults));
    for (std::size_t i = 0; i < std::size(faults); ++i) {
        const auto& [inside, outside, line] = samples[i];
        const auto text = "known fault of " + text_of(faults[i]);
        SCOPED_TRACE(text);
        EXPECT_LE(text.size(), 300u);  // an answer has no more of a line
        EXPECT_TRUE(has(faults[i], inside));
        EXPECT_FALSE(has(faults[i], outside));
        ASSERT_EQ(line.empty(), faults[i].symptom.empty());
        if (line.empty()) continue;
        EXPECT_EQ(std::ranges::count(said_by(line), text), faults[i].is_clear);
        if (faults[i].library != "nccl") continue;
        const auto said = [&](const std::string& version) {
            return std::ranges::count(said_by("NCCL version " + version + "+cuda13.0\n" + line), text);
        };
        EXPECT_EQ(said(inside), 1);
        EXPECT_EQ(said(outside), 0);
    }
    EXPECT_TRUE(has(faults[0], "2.28.9", "aarch64"));
    EXPECT_FALSE(has(faults[0], "2.28.9", "x86_64"));
}

TEST(KnownFaults, AVersionMayLeaveOutNumbers) {
    EXPECT_TRUE((Range{"2.29.2", "2.29.2"}.has("2.29")));
    EXPECT_TRUE((Range{"", "2.29"}.has("2.29.7")));
    EXPECT_FALSE((Range{"2.29.2", "2.29"}.has("2.30")));
    EXPECT_FALSE((Range{"2.29.2", ""}.has("2.28")));
    EXPECT_EQ(parse_versions(" nccl = 2.28.9 ,torch=2.13.0a0+git1"),
              (Versions{{"nccl", "2.28.9"}, {"torch", "2.13.0a0+git1"}}));
    EXPECT_EQ(error_of("mccl=2.1"),
              "--versions names 'mccl', which is no known library; give one of gcc, clang, python, torch, "
              "open-mpi, mpich, "
              "gloo, nccl");
    for (const std::string wrong : {"", "new", "2..1", "2.-1", "1.2.3.4.5"})
        EXPECT_EQ(error_of("nccl=" + wrong),
                  "--versions gives '" + wrong +
                      "' for nccl, which is no version; write numbers with dots, such as "
                      "nccl=2.28.9");
}

TEST(TestedVersions, AreThoseOfThePage) {
    auto file = std::ifstream(RANKMESH_SOURCE "/docs/stability.md");
    const auto page = std::string(std::istreambuf_iterator<char>(file), {});
    for (const auto& library : libraries) {
        const auto row = "\n| " + std::string(library.name) + " | " + text_of(library.tested) + " | ";
        EXPECT_NE(page.find(row), std::string::npos) << row;
    }
    EXPECT_EQ(untested({{"gcc", "12.2.0"}, {"torch", "2.15"}, {"python", "3.10.1"}}),
              "not tested with PyTorch 2.15 (tested: 2.11 to 2.14), Python 3.10.1 (tested: 3.11 to 3.13)");
    EXPECT_EQ(untested({{"nccl", "2.32.6"}, {"python", "3.13.1"}}), "");
}

}  // namespace rankmesh::tests
