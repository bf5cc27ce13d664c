// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

TEST(Output, EndsQuietlyWhenItsReaderHasEnough) {
    EXPECT_EQ(rankmesh("groups 'dp=1000000 tp=2' tp | head -n 2").output,
              "# 1000000 groups of 2 ranks along tp of dp=1000000 tp=2\n{0, 1}\n");
    // The same where the parent ignores SIGPIPE, as some languages do for all their children.
    EXPECT_EQ(
        support::run(clean + "trap '' PIPE; " + command + "groups 'dp=1000000 tp=2' tp | head -n 1").output,
        "# 1000000 groups of 2 ranks along tp of dp=1000000 tp=2\n");
}

TEST(Output, ThatCannotBeWrittenIsAnError) {
    for (const auto* words : {"show dp=8", "groups dp=8 dp", "rank dp=8 0", "env dp=8 --rank 0", "--help",
                              "--version", "groups 'dp=1000000 tp=2' tp --json"}) {
        const auto full = rankmesh(std::string(words) + " >/dev/full");
        EXPECT_EQ(full.exit_code, 1) << words;
        EXPECT_EQ(full.output, "rankmesh: cannot write to standard output: No space left on device\n")
            << words;
        const auto closed = rankmesh(std::string(words) + " >&-");
        EXPECT_EQ(closed.exit_code, 1) << words;
        EXPECT_EQ(closed.output, "rankmesh: cannot write to standard output: Bad file descriptor\n") << words;
    }
}

}  // namespace
}  // namespace rankmesh::tests
