// SPDX-License-Identifier: Apache-2.0
// the result would go into a const buffer: pass one that may be written
#include "refused.hpp"
void refused(Communicator& on, const std::vector<float>& x) { on.all_reduce(x); }
