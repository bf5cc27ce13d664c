// SPDX-License-Identifier: Apache-2.0
// counts are std::size_t: pass a std::vector<std::size_t>
#include "refused.hpp"
void refused(Communicator& on, std::vector<float>& x, std::span<const int> counts) {
    on.all_to_all_v(x, counts, x, std::vector<std::size_t>());
}
