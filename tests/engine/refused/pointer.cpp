// SPDX-License-Identifier: Apache-2.0
// a raw pointer has no length: pass std::span(pointer, count)
#include "refused.hpp"
void refused(Communicator& on, float* gradients, int n) { on.all_reduce(gradients, n); }
