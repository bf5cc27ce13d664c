// SPDX-License-Identifier: Apache-2.0
// What the errors of ranks say about others.
#include <algorithm>
#include <set>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

#include "explain/evidence.hpp"

namespace rankmesh::detail::explaining {

namespace {

/// Returns the ranks with which a clause begins, such as `rank 1`, `the ranks {1, 2}` or `rank 3 [dp=1
/// tp=1]`, and what it says of them. The ranks are empty if it begins otherwise.
std::pair<std::vector<int>, std::string_view> subject_of(std::string_view clause) {
    while (clause.starts_with(' ')) clause.remove_prefix(1);
    if (clause.starts_with("the ")) clause.remove_prefix(4);
    if (!clause.starts_with("rank")) return {};
    auto ranks = std::string{};
    auto end = clause.find(' ');
    for (; end < clause.size(); ++end) {
        if (clause[end] == '[')
            end = std::min(clause.find(']', end), clause.size() - 1);
        else if (std::string_view("0123456789{}., ").find(clause[end]) == std::string_view::npos)
            break;
        else if (clause[end] != '{' && clause[end] != '}')
            ranks += clause[end];
    }
    auto words = clause.substr(std::min(end, clause.size()));
    words = words.substr(0, words.find(": rank "));  // of MPI: where the reporter waits
    try {
        return {parse_ranks(cat("{", ranks, "}")), words};
    } catch (const UsageError&) {
        return {};
    }
}

}  // namespace

std::pair<std::string, int> Evidence::reported(int rank) const {
    const auto known = reported_.find(rank);
    return known == reported_.end() ? std::pair<std::string, int>{} : known->second;
}

/// Reads clauses such as `rank 1 has ended this communicator` and `rank 3 [dp=1 tp=1] does not answer` of the
/// errors of ranks that missed or lost others.
void Evidence::read_reports() {
    for (const auto& [reporter, record] : by_rank_) {
        auto concerned = std::set<int>(record->missing.begin(), record->missing.end());
        concerned.insert(record->lost.begin(), record->lost.end());
        if (concerned.empty()) continue;
        auto rest = std::string_view(record->error);
        if (rest.starts_with("rankmesh: ")) rest.remove_prefix(10);
        while (!rest.empty()) {
            const auto clause = rest.substr(0, rest.find(';'));
            rest.remove_prefix(std::min(clause.size() + 1, rest.size()));
            const auto [ranks, words] = subject_of(clause);
            for (const auto rank : ranks)
                if (concerned.contains(rank)) reported_.try_emplace(rank, error_text(words, 200), reporter);
        }
    }
}

}  // namespace rankmesh::detail::explaining
