// SPDX-License-Identifier: Apache-2.0
// a reduction is a tag, not a function: pass rankmesh::sum, prod, min, max, mean, or a
#include "refused.hpp"
Pending refused(Communicator& on, std::vector<float>& x, std::vector<float>& y) {
    return on.start_scan(x, y, std::plus<float>());
}
