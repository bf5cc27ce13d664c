// SPDX-License-Identifier: Apache-2.0
// a reduction is a tag, not a function: pass rankmesh::sum, prod, min, max, mean, or a
#include "refused.hpp"
void refused(Communicator& on, std::vector<float>& x, std::vector<float>& y) {
    on.all_reduce(x, y, [](float a, float b) { return a + b; });
}
