// SPDX-License-Identifier: Apache-2.0
// this is a range of buffers, not one buffer: pass rankmesh::Buffers(range)
#include "refused.hpp"
void refused(Communicator& on, std::vector<std::span<float>>& x) { on.all_reduce(x); }
