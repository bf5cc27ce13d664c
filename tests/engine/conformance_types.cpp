// SPDX-License-Identifier: Apache-2.0
// Every type through every operation: the file that is compiled longest.
#include <gtest/gtest.h>

#include "conformance.hpp"
#include "operations.hpp"

using namespace rankmesh;

TEST(Conformance, EveryTypeMovesAndReducesAsItSays) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto check = [&]<class... T>(operations::Types<T...>) {
            for (auto count : {std::size_t{1}, std::size_t{37}})
                (operations::check_all<T>(on, world.rank(), count), ...);
        };
        check(operations::AllTypes{});
    });
}
