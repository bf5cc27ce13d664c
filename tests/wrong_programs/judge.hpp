// SPDX-License-Identifier: Apache-2.0
// Whether an error, or a finding of `explain`, names what is wrong in a program.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>
#include <rankmesh/explain/explain.hpp>

#include "programs.hpp"

namespace wrong_programs {

/// Something that was said about a run: an error of a rank, or a finding.
struct Report {
    std::string kind;  ///< `Timeout`, ... of an error, `behind`, ... of a finding
    std::vector<int> ranks;
    std::string text;
};

inline std::string to_string(const Report& said) {
    return rankmesh::detail::cat("  ", said.kind, " ", rankmesh::ranks_to_string(said.ranks), ": ", said.text,
                                 "\n");
}

/// The error in flight on a rank; one that is no Error of rankmesh's names nothing.
inline Report said_by(int rank) {
    using namespace rankmesh;
    try {
        throw;
    } catch (const Timeout& error) {
        return {"Timeout", error.missing, error.what()};
    } catch (const PeerLost& error) {
        return {"PeerLost", error.ranks, error.what()};
    } catch (const Disagreement& error) {
        return {"Disagreement", error.ranks, error.what()};
    } catch (const UsageError& error) {
        return {"UsageError", {rank}, error.what()};
    } catch (const std::exception& error) {
        return {"other", {}, error.what()};
    }
}

/// The first finding, which has the culprit, with its details.
inline std::vector<Report> said_by(const rankmesh::Explanation& explanation) {
    if (explanation.findings.empty()) return {};
    const auto& first = explanation.findings.front();
    auto said = Report{std::string(to_string(first.kind)), first.ranks, first.text};
    for (const auto& detail : first.details) said.text += "; " + detail;
    return {said};
}

/// The kinds of errors and findings that name a cause.
inline std::vector<std::string_view> kinds_of(Cause cause) {
    switch (cause) {
        case Cause::calls_differ:
            return {"Disagreement", "calls_differ"};
        case Cause::plans_differ:
            return {"Disagreement"};
        case Cause::peers_differ:
            return {"peer"};
        case Cause::orders_cross:
            return {"cycle"};
        case Cause::one_call_extra:
            return {"extra"};
        case Cause::does_not_come:
            return {"Timeout", "behind"};
        case Cause::is_gone:
            return {"PeerLost", "absent", "left"};
        case Cause::misuse:
            return {"UsageError"};
    }
    return {};
}

/// True if it is of a right kind, blames exactly the ranks to blame, and says where and what.
inline bool names(const Report& said, const Program& program) {
    const auto kinds = kinds_of(program.cause);
    const auto says = [&](const std::string& words) { return said.text.find(words) != std::string::npos; };
    return std::ranges::find(kinds, said.kind) != kinds.end() && said.ranks == program.ranks &&
           says(program.on) && std::ranges::all_of(program.says, says);
}

/// True if one of them names the cause, and none is a disagreement of other ranks.
inline bool names(const std::vector<Report>& all, const Program& program) {
    return std::ranges::any_of(all, [&](const Report& said) { return names(said, program); }) &&
           std::ranges::none_of(all, [&](const Report& said) {
               return said.kind == "Disagreement" && said.ranks != program.ranks;
           });
}

}  // namespace wrong_programs
