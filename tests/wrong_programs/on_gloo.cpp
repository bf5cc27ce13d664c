// SPDX-License-Identifier: Apache-2.0
// Wrong programs as processes on Gloo without checked mode: `explain` names what is wrong from their records.
#include <gtest/gtest.h>

#include <algorithm>

#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

#include "judge.hpp"
#include "programs.hpp"
#include "support/processes.hpp"

namespace wrong_programs {
namespace {

TEST(WrongProgramsOnGloo, AreNamedByExplain) {
    for (const auto* name : {"operation_in_a_pair", "count_on_two", "root_of_reduce", "edge_of_shift",
                             "last_call_missing", "misses_the_barrier", "crossed", "crossed_three",
                             "ring_the_other_way", "message_length", "to_another_peer", "throws"}) {
        const auto& program = *std::ranges::find(programs(), name, &Program::name);
        const auto folder = support::Folder();
        const auto records = folder.path() + "/records";
        const auto ranks =
            support::start_ranks({WRONG_PROGRAM, name}, program.mesh.size(), folder.path() + "/store", name,
                                 {{"RANKMESH_RECORD", records}, {"RANKMESH_CHECK", "0"}});
        for (const auto rank : ranks) support::end_of(rank);
        const auto found = rankmesh::read_records({records});
        const auto said = said_by(rankmesh::explain(found.records, found.unread));
        auto text = std::string{};
        for (const auto& one : said) text += to_string(one);
        EXPECT_TRUE(names(said, program)) << name << ": " << program.what << "\n" << text;
    }
}

}  // namespace
}  // namespace wrong_programs
