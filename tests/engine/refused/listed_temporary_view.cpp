// SPDX-License-Identifier: Apache-2.0
// the output buffer is a temporary, so the result would be lost: pass a named buffer or a view
#include "refused.hpp"
struct Layer {
    std::vector<float> weights;
};
std::vector<Layer> layers();
Buffers refused() { return Buffers(layers() | std::views::transform(&Layer::weights)); }
