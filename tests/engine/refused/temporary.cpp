// SPDX-License-Identifier: Apache-2.0
// the output buffer is a temporary, so the result would be lost: pass a named buffer or a view
#include "refused.hpp"
void refused(Communicator& on, int n) { on.all_reduce(n, 0); }
