// SPDX-License-Identifier: Apache-2.0
// the output buffer is const: pass a writable one
#include "refused.hpp"
void refused(Communicator& on, const std::vector<float>& x) { on.all_reduce(x); }
