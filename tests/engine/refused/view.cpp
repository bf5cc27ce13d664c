// SPDX-License-Identifier: Apache-2.0
// this is no buffer: pass elements one after the other, or one, none holding a pointer
#include "refused.hpp"
struct Matrix {
    float* data;
    int extents[2];
};
void refused(Communicator& on, Matrix& weights) { on.shift(weights, 1); }
