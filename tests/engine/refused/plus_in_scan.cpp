// SPDX-License-Identifier: Apache-2.0
// a function as a reduction says whether it commutes: pass rankmesh::commutative(f) or
#include "refused.hpp"
Pending refused(Communicator& on, std::vector<float>& x, std::vector<float>& y) {
    return on.start().scan(x, y, std::plus<float>());
}
