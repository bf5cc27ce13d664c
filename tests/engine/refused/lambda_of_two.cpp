// SPDX-License-Identifier: Apache-2.0
// a function as a reduction says whether it commutes: pass rankmesh::commutative(f) or
#include "refused.hpp"
void refused(Communicator& on, std::vector<float>& x, std::vector<float>& y) {
    on.all_reduce(x, y, [](float a, float b) { return a + b; });
}
