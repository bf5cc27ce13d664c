// SPDX-License-Identifier: Apache-2.0
// rankmesh::mean is of floating elements: convert these, or take the sum and divide
#include "refused.hpp"
void refused(Communicator& on, std::vector<int>& counts) { on.all_reduce(counts, mean); }
