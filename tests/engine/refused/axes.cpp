// SPDX-License-Identifier: Apache-2.0
// // no set but a name: write {{"dp", "tp"}}
#include "refused.hpp"
Member refused(World& world) { return world.join({{"dp", 2}, {"tp", 2}}, {.over = {"dp", "tp"}}); }
