// SPDX-License-Identifier: Apache-2.0
// elements of this type can be sent, but rankmesh::sum and the other tags reduce numbers only: pass
#include "refused.hpp"
struct Point {
    float x, y;
};
void refused(Communicator& on, Point& x) { on.all_reduce(x); }
