// SPDX-License-Identifier: Apache-2.0
// the input buffer is a temporary that would be destroyed before it is sent: pass a named buffer or a view
#include "refused.hpp"
Pending refused(Communicator& on) { return on.start().send(std::vector<float>(3), 1); }
