// SPDX-License-Identifier: Apache-2.0
// the result would go into a temporary: pass a named buffer, or a view
#include "refused.hpp"
void refused(Communicator& on, int n) { on.all_reduce(n, 0); }
