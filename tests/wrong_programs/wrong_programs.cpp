// SPDX-License-Identifier: Apache-2.0
// Of every wrong program, checked mode or `explain` names the right cause.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

#include "judge.hpp"
#include "programs.hpp"
#include "support/processes.hpp"

namespace wrong_programs {
namespace {

using rankmesh::detail::cat;

/// What the ranks of a run as threads threw.
std::vector<Report> errors_of(const Program& program, bool checked, const std::string& folder) {
    auto said = std::vector<Report>{};
    auto mutex = std::mutex{};
    const auto options = rankmesh::WorldOptions{.timeout = timeout, .checked = checked, .record = folder};
    const auto on_a_rank = [&](rankmesh::World& world) {
        try {
            run_rank(program, world);
        } catch (...) {
            const auto lock = std::lock_guard(mutex);
            said.push_back(said_by(world.rank()));
            throw;
        }
    };
    try {
        rankmesh::threads::run(program.mesh.size(), on_a_rank, options);
    } catch (const std::exception&) {
    }
    return said;
}

/// What the records of a folder say; nothing where there are none.
std::vector<Report> findings_of(const std::string& folder) {
    if (std::filesystem::is_empty(folder)) return {};
    const auto found = rankmesh::read_records({folder});
    return said_by(rankmesh::explain(found.records, found.unread));
}

/// What went wrong in the judgement of a program; empty: nothing.
std::string judge(const Program& program) {
    const auto folder = support::Folder();
    const auto errors = errors_of(program, true, "");
    errors_of(program, false, folder.path());
    const auto findings = findings_of(folder.path());
    const auto by_checked = names(errors, program);
    const auto by_explain = names(findings, program);
    if ((by_checked || program.by == By::explain) && (by_explain || program.by == By::checked)) return {};
    auto text = cat(program.name, ": ", program.what, ", ranks ", rankmesh::ranks_to_string(program.ranks),
                    " on ", program.on, "\n named by checked mode: ", by_checked ? "yes" : "no", "\n");
    for (const auto& said : errors) text += to_string(said);
    text += cat(" named by explain: ", by_explain ? "yes" : "no", "\n");
    for (const auto& said : findings) text += to_string(said);
    return text;
}

TEST(WrongPrograms, AreNamedByCheckedModeOrExplain) {
    constexpr auto at_a_time = 12;
    auto next = std::atomic<std::size_t>{0};
    auto wrong = std::vector<std::string>(programs().size());
    auto workers = std::vector<std::jthread>{};
    for (int i = 0; i < at_a_time; ++i)
        workers.emplace_back([&] {
            for (auto p = next++; p < programs().size(); p = next++) wrong[p] = judge(programs()[p]);
        });
    workers.clear();
    for (const auto& text : wrong) EXPECT_EQ(text, "");
}

TEST(WrongPrograms, AreManyAndOfEveryKind) {
    auto names = std::set<std::string>{};
    auto causes = std::set<Cause>{};
    auto sizes = std::set<int>{};
    for (const auto& program : programs()) {
        names.insert(program.name);
        causes.insert(program.cause);
        sizes.insert(program.mesh.size());
        EXPECT_FALSE(program.ranks.empty()) << program.name;
    }
    EXPECT_EQ(names.size(), programs().size());
    const auto named_by = [](By other) {
        return std::ranges::count_if(programs(), [=](const Program& program) { return program.by != other; });
    };
    // As docs/fault-tests.md says.
    EXPECT_EQ(programs().size(), 71U);
    EXPECT_EQ(named_by(By::explain), 50) << "by checked mode";
    EXPECT_EQ(named_by(By::checked), 60) << "by explain";
    EXPECT_EQ(causes.size(), 8U);
    EXPECT_EQ(sizes, (std::set{4, 6, 8}));
}

TEST(WrongPrograms, AreNotNamedByAnotherCauseRankOrCommunicator) {
    const auto& program = programs().front();
    const auto right = Report{"Disagreement", program.ranks, "on " + program.on + " " + program.says.front()};
    EXPECT_TRUE(names(right, program));
    for (const auto& said :
         {Report{"Timeout", right.ranks, right.text}, Report{right.kind, {2}, right.text},
          Report{right.kind, {2, 3}, right.text}, Report{right.kind, right.ranks, "on 'tp'"},
          Report{right.kind, right.ranks, "on 'dp' " + program.says.front()}}) {
        EXPECT_FALSE(names(said, program)) << to_string(said);
        EXPECT_EQ(names({right, said}, program), said.ranks == program.ranks || said.kind != right.kind);
    }
}

}  // namespace
}  // namespace wrong_programs
