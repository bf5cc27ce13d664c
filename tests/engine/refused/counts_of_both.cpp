// SPDX-License-Identifier: Apache-2.0
// // use std::size_t counts
#include "refused.hpp"
void refused(Communicator& on, std::vector<float>& x, std::span<const int> counts) {
    on.all_to_all_v(x, counts, x, std::vector<std::size_t>());
}
