// SPDX-License-Identifier: Apache-2.0
// a function as a reduction says whether it commutes: pass rankmesh::commutative(f) or
#include "refused.hpp"
void refused(Communicator& on, std::vector<float>& x) { on.reduce(x, std::plus<>(), 0); }
