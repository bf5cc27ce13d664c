// SPDX-License-Identifier: Apache-2.0
// std::vector<bool> stores packed bits and cannot be a buffer: use std::vector<char>
#include "refused.hpp"
void refused(Communicator& on, std::vector<bool>& done) { on.all_reduce(done, logical_and); }
