// SPDX-License-Identifier: Apache-2.0
// std::vector<bool> is no buffer, as it packs bits: use std::vector<char>
#include "refused.hpp"
void refused(Communicator& on, std::vector<bool>& done) { on.all_reduce(done, logical_and); }
