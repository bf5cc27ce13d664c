// SPDX-License-Identifier: Apache-2.0
// this type cannot be a buffer: pass a contiguous range or a single element without pointers
#include "refused.hpp"
struct Matrix {
    float* data;
    int extents[2];
};
void refused(Communicator& on, Matrix& weights) { on.shift(weights, 1); }
