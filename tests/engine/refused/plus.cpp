// SPDX-License-Identifier: Apache-2.0
// a reduction is a tag, not a function: pass rankmesh::sum, prod, min, max, mean, or a
#include "refused.hpp"
void refused(Communicator& on, std::vector<float>& x) { on.reduce(x, std::plus<>(), 0); }
