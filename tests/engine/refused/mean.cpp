// SPDX-License-Identifier: Apache-2.0
// rankmesh::mean needs a floating-point type: convert the elements, or use rankmesh::sum and divide
#include "refused.hpp"
void refused(Communicator& on, std::vector<int>& counts) { on.all_reduce(counts, mean); }
