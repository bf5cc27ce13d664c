// SPDX-License-Identifier: Apache-2.0
// one pair of braces is missing: write .over = {{
#include "refused.hpp"
Member refused(World& world) { return world.join({{"dp", 2}, {"tp", 2}}, {.over = {"dp", "tp"}}); }
