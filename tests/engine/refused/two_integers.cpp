// SPDX-License-Identifier: Apache-2.0
// ambiguous: the second integer could be an output, a root or a distance: write (x, y, sum)
#include "refused.hpp"
void refused(Communicator& on, int n, int m) { on.reduce(n, m); }
