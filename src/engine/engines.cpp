// SPDX-License-Identifier: Apache-2.0
#include "engine/engines.hpp"

namespace rankmesh {
namespace detail {

// A new engine is a folder whose row.cpp defines its function, and a word in each list here.
Engine threads_engine(), mpi_engine(), gloo_engine(), nccl_engine();

std::span<const Engine> engines() {
    static const Engine all[] = {threads_engine(), mpi_engine(), gloo_engine(), nccl_engine()};
    return all;
}

}  // namespace detail

std::vector<BuiltEngine> built_engines() {
    auto all = std::vector<BuiltEngine>{};
    for (const auto& engine : detail::engines())
        if (engine.is_built())
            all.push_back({std::string(engine.name), engine.library ? engine.library() : ""});
    return all;
}

std::vector<EngineNeed> needs_of(const JoinCost& cost) {
    auto needs = std::vector<EngineNeed>{};
    for (const auto& engine : detail::engines())
        if (engine.need) needs.push_back(engine.need(cost));
    return needs;
}

}  // namespace rankmesh
