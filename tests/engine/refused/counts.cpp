// SPDX-License-Identifier: Apache-2.0
// counts are std::size_t: pass a std::vector<std::size_t>
#include "refused.hpp"
void refused(Communicator& on, float x, std::vector<float>& all, const std::vector<int>& counts) {
    on.all_gather_v(x, all, counts);
}
