// SPDX-License-Identifier: Apache-2.0
// Small programs that are wrong, each with what is wrong in it, which ranks are to blame, and where.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/world.hpp>

namespace wrong_programs {

/// The timeout of each call but the last barrier, which waits longer, so that it is never the first to
/// expire.
constexpr auto timeout = std::chrono::milliseconds(1000);

enum class Cause : std::uint8_t {
    calls_differ,    ///< calls of one number differ, or the ends of a message
    plans_differ,    ///< in `join`
    peers_differ,    ///< messages whose ends do not name each other
    orders_cross,    ///< ranks wait for one another
    one_call_extra,  ///< a call that the others do not make
    does_not_come,   ///< a rank that stays outside any call
    is_gone,         ///< a rank that returned or threw
    misuse           ///< one rank's call is wrong by itself
};

/// Who names the cause: at least these.
enum class By : std::uint8_t { checked, explain, both };

/// A rank of a program.
struct Rank {
    rankmesh::World& world;
    rankmesh::Member& member;
    int id;  ///< in the world

    template <class... Axes>
    rankmesh::Communicator on(const Axes&... axes) {
        return member.on(axes...);
    }
};

struct Program {
    std::string name;
    std::string what;  ///< is wrong
    rankmesh::Mesh mesh;
    std::vector<int> ranks;  ///< to blame; all that differ where no one is more wrong than another
    std::string on;          ///< the communicator as texts name it; empty: none
    Cause cause;
    By by;
    std::vector<std::string> says;  ///< words that who names the cause must say
    std::function<void(Rank&)> body;
    std::function<void(int, rankmesh::Declaration&)> change_plan = {};  ///< of a rank
};

const std::vector<Program>& programs();

/// Joins, makes a right call along each axis, runs the body, and ends with a barrier of all ranks.
void run_rank(const Program& program, rankmesh::World& world);

}  // namespace wrong_programs
