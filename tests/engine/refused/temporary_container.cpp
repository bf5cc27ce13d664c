// SPDX-License-Identifier: Apache-2.0
// the output buffer is a temporary, so the result would be lost: pass a named buffer or a view
#include "refused.hpp"
Pending refused(Communicator& on, float x) { return on.start().all_gather(x, std::vector<float>(8)); }
