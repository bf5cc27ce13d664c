// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for others in every way there is, until they hear that the world is over.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/engine/world.hpp>

namespace waits {

using namespace rankmesh;

/// One step along each axis of a mesh.
inline void step(const Member& me) {
    for (int axis = 0; axis < me.mesh().axis_count(); ++axis) {
        auto x = std::vector<float>(100, 1);
        me.on(me.mesh().name(AxisId{axis})).all_reduce(x);
    }
}

/// True if the ranks are in one group of an axis.
inline bool share_a_group(const Mesh& mesh, int one, int other) {
    for (int axis = 0; axis < mesh.axis_count(); ++axis)
        if (mesh.group(one, mesh.name(AxisId{axis})).contains(other)) return true;
    return false;
}

/// What a rank does that waits for others: each ends by an error alone.
using Wait = std::function<void(World&, const Member&)>;
inline std::map<std::string, Wait> all() {
    const auto first_axis = [](const Member& me) { return me.on(me.mesh().name(AxisId{0})); };
    const auto everybody = [](const World& world) {
        auto ranks = std::vector<int>{};
        for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
        return ranks;
    };
    return {{"call",
             [](World&, const Member& me) {
                 for (;;) step(me);
             }},
            {"start",
             [](World&, const Member& me) {
                 for (;;)
                     for (int axis = 0; axis < me.mesh().axis_count(); ++axis) {
                         auto x = std::vector<float>(100, 1);
                         auto on = me.on(me.mesh().name(AxisId{axis}));
                         on.start().all_reduce(x).wait();
                     }
             }},
            {"message",
             [=](World&, const Member& me) {
                 auto x = 0;
                 auto on = first_axis(me);
                 on.recv(x, (on.rank() + 1) % on.size());
             }},
            {"join",
             [](World& world, const Member&) {
                 world.join({{"all", rest}});
             }},
            {"group", [=](World& world, const Member& me) { me.group(everybody(world)); }},
            {"split", [](World&, const Member& me) { me.split(0); }},
            {"sub",
             [=](World& world, const Member&) {
                 world.sub(everybody(world)).join({{"all", rest}});
             }},
            {"grow", [](World& world, const Member&) { world.grow(1, std::chrono::seconds(60)); }}};
}

}  // namespace waits
