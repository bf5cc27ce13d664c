// SPDX-License-Identifier: Apache-2.0
// the input and output buffers have different element types: convert one of them first
#include "refused.hpp"
void refused(Communicator& on, std::vector<float>& x, std::vector<double>& all) { on.all_gather(x, all); }
