// SPDX-License-Identifier: Apache-2.0
// Cases recorded from the original systems, and what our frameworks answer to them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <rankmesh/core/group.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/groups.hpp>

namespace golden {

using Json = nlohmann::ordered_json;
using rankmesh::frameworks::Fault;

struct Case {
    std::string system;
    std::string kind;
    const Json& config;
    const Json& expect;
    const Json& meta;
};

/// One of the original systems: how we answer each kind of case, in the schema's own shape, where lists of
/// ranks and of groups are written out and the comparison encodes them as the case does.
///
/// An answer throws frameworks::Error where the original raises an error as a whole; inside an answer
/// `attempt` puts it where the schema has it.
struct System {
    std::string_view name;
    std::map<std::string_view, std::function<Json(const Case&)>> kinds;
    /// What faults of ours stand for an error of the original.
    std::function<std::vector<Fault>(const Case& test, std::string_view type, std::string_view message)>
        faults;
};

/// All of them, each in the file of its name.
System areal_grid();
System areal_topology();
System deepspeed_groups();
System deepspeed_topology();
System llamafactory();
System megatron_parallel_state();
System olmo_mesh();
System picotron();
System torchtitan();
System vllm_parallel_state();
const std::vector<System>& systems();

/// The value of `body`, or its error in the form that the comparison knows.
template <class Body>
Json attempt(Body&& body) {
    try {
        return Json(body());
    } catch (const rankmesh::frameworks::Refusal&) {
        throw;  // the whole case is refused
    } catch (const rankmesh::frameworks::Error& error) {
        return Json{{"error", {{"fault", to_string(error.fault)}, {"text", error.what()}}}};
    }
}

/// The same where a refusal is of this part of the case only: it stands for any value that the case expects.
template <class Body>
Json attempt_or_refuse(Body&& body) {
    try {
        return attempt(body);
    } catch (const rankmesh::frameworks::Refusal& refusal) {
        return Json{{"error", {{"fault", to_string(refusal.fault)}, {"text", refusal.what()}}},
                    {"refused", refusal.rule}};
    }
}

/// The hash of a text that the schema uses.
std::string fnv1a64(std::string_view text);

/// Ranks, and groups of ranks, written out.
Json ranks(const rankmesh::Group& group);
Json groups(const rankmesh::Partition& partition);
Json groups(const rankmesh::frameworks::Groups& groups, std::string_view kind);

/// An answer of a framework.
Json json_of(const rankmesh::frameworks::Value& value);

/// Where `got` is not what the case expects, in words with both values; "" if it is. `refused` gets the rules
/// by which parts of it were refused.
std::string difference(const System& system, const Case& test, const Json& got,
                       std::vector<std::string>& refused);

}  // namespace golden
