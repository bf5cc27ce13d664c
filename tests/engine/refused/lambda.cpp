// SPDX-License-Identifier: Apache-2.0
// a function as a reduction says whether it commutes: pass rankmesh::commutative(f) or
#include "refused.hpp"
void refused(Communicator& on, std::vector<float>& x) {
    on.all_reduce(x, [](auto a, auto b) { return a + b; });
}
