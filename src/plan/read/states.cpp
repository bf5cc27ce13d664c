// SPDX-License-Identifier: Apache-2.0
// Layers that keep a state of a sequence instead of its keys and values, as transformers builds them
// (models/*/modeling_*.py): the parameters of their matrices and the numbers of their state.
#include "plan/read/family.hpp"

namespace rankmesh::plan::of_read {

using Wide = std::int64_t;

namespace of_states {

/// Gated delta rule (Yang et al., arXiv 2412.06464): projections of queries, keys, values and the output
/// gate, two numbers of each head, and a convolution.
void delta(const Family& f, Wide hidden, Layer& layer) {
    // OLMo Hybrid has defaults by the sizes of attention.
    const auto key_heads = f.number({"linear_num_key_heads"}).value_or(layer.heads);
    const auto key_dim =
        f.number({"linear_key_head_dim"}).value_or(static_cast<int>(3 * hidden / 4 / key_heads));
    const auto state =
        of_read::delta(hidden, f.number({"linear_num_value_heads"}).value_or(layer.heads), key_heads, key_dim,
                       f.number({"linear_value_head_dim"}).value_or(2 * key_dim),
                       f.number({"linear_conv_kernel_dim"}).value_or(4));
    layer.heads = state.heads, layer.weights = state.weights, layer.state = state.state;
}

/// Kimi Delta Attention (arXiv 2510.26692): as above, with a gate for each channel through a small matrix.
void kimi(const Family& f, Wide hidden, Layer& layer) {
    const Wide heads = f.number({"linear_attn_config.num_heads", "linear_num_heads"}).value_or(layer.heads);
    const Wide dim = f.at(0, {"linear_attn_config.head_dim", "linear_head_dim"}, f.at(0, {"head_dim"}, 0));
    const auto wide = heads * dim;
    const Wide kernel = f.number({"linear_attn_config.short_conv_kernel_size", "short_conv_kernel_size",
                                  "linear_conv_kernel_dim"})
                            .value_or(4);
    layer.heads = static_cast<int>(heads);
    layer.weights = hidden * (3 * wide + heads) + wide * hidden + 3 * wide * kernel +
                    (f.has("wide-gates") ? 2 * hidden * wide : 2 * (hidden * dim + dim * wide));
    layer.state = heads * dim * dim + 3 * wide * (kernel - 1);
}

/// Mamba-1 (Gu and Dao, arXiv 2312.00752).
void mamba1(const Family& f, Wide hidden, Layer& layer) {
    const auto expand = f.number({"mamba_expand", "expand"}).value_or(2);
    const Wide inner = f.has("own-width")
                           ? f.number({"intermediate_size"}).value_or(expand * static_cast<int>(hidden))
                           : expand * hidden;
    const Wide n = f.needed({"mamba_d_state", "state_size"}, "the size of the state");
    const Wide kernel = f.number({"mamba_d_conv", "conv_kernel"}).value_or(4);
    const Wide rank =
        f.number({"mamba_dt_rank", "time_step_rank"}).value_or(static_cast<int>((hidden + 15) / 16));
    layer.heads = static_cast<int>(inner);
    layer.weights = hidden * 2 * inner + inner * kernel + inner * (rank + 2 * n) + rank * inner + inner * n +
                    3 * inner + inner * hidden;
    layer.state = inner * (n + kernel - 1);
}

/// Mamba-2 (Dao and Gu, arXiv 2405.21060).
void mamba2(const Family& f, Wide hidden, Layer& layer) {
    const auto expand = f.number({"mamba_expand", "expand"}).value_or(2);
    const auto heads =
        f.needed({"mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads"}, "the heads of Mamba-2");
    Wide inner = expand * hidden;
    if (const auto dim = f.number({"mamba_head_dim"})) inner = Wide{heads} * *dim;
    if (const auto width = f.number({"mamba_d_ssm"})) inner = *width;
    const Wide n = f.needed({"ssm_state_size", "mamba_d_state", "state_size"}, "the size of the state");
    const Wide groups = f.number({"n_groups", "mamba_n_groups", "mamba_ngroups"}).value_or(1);
    const auto state = of_read::mamba2(hidden, inner, heads, n, groups,
                                       f.number({"conv_kernel", "mamba_d_conv"}).value_or(4));
    layer.heads = state.heads, layer.weights = state.weights, layer.state = state.state;
}

/// Lightning attention (MiniMax-01, arXiv 2501.08313): queries, keys, values, an output gate.
void lightning(const Family&, Wide hidden, Layer& layer) {
    const Wide wide = Wide{layer.heads} * layer.head_dim;
    layer.weights = 5 * hidden * wide;
    layer.state = wide * layer.head_dim;
}

/// A short convolution between two gates (LFM2).
void convolution(const Family& f, Wide hidden, Layer& layer) {
    const Wide kernel = f.needed({"conv_L_cache"}, "the width of the convolution");
    layer.heads = static_cast<int>(hidden);
    layer.weights = 4 * hidden * hidden + hidden * kernel;
    layer.state = hidden * (kernel - 1);
}

/// RG-LRU (Griffin, arXiv 2402.19427): three matrices, and two gates in blocks of the heads.
void recurrent(const Family& f, Wide hidden, Layer& layer) {
    const Wide width = f.number({"lru_width"}).value_or(static_cast<int>(hidden));
    const Wide kernel = f.number({"conv1d_width"}).value_or(4);
    layer.weights = 3 * hidden * width + width * (kernel + 4) + 2 * width * width / layer.heads;
    layer.state = width * kernel;
}

}  // namespace of_states

Layer delta(Wide hidden, Wide heads, Wide key_heads, Wide key_dim, Wide dim, Wide kernel) {
    const auto wide = 2 * key_heads * key_dim + heads * dim;
    return {.heads = static_cast<int>(heads),
            .state = heads * dim * key_dim + wide * (kernel - 1),
            .weights = hidden * (wide + heads * dim + 2 * heads) + wide * kernel + heads * dim * hidden};
}

Layer mamba2(Wide hidden, Wide inner, int heads, Wide n, Wide groups, Wide kernel) {
    const auto wide = inner + 2 * groups * n;
    return {.heads = heads,
            .state = inner * n + wide * (kernel - 1),
            .weights =
                hidden * (inner + wide + heads) + wide * (kernel + 1) + 3 * heads + inner + inner * hidden};
}

void read_state(const Family& family, int hidden, Layer& layer) {
    using namespace of_states;
    using Read = void (*)(const Family&, Wide, Layer&);
    for (const auto& [tag, read] : {std::pair<const char*, Read>{"delta", delta},
                                    {"kimi", kimi},
                                    {"mamba1", mamba1},
                                    {"mamba2", mamba2},
                                    {"lightning", lightning},
                                    {"conv", convolution},
                                    {"recurrent", recurrent}})
        if (family.has(tag)) {
            read(family, hidden, layer);
            layer.kv_heads = layer.head_dim = layer.value_dim = layer.window = 0;
            layer.gate = false;
            return;
        }
    family.fail(cat(in_quotes(family.type()), " has layers without attention that plan does not know"));
}

}  // namespace rankmesh::plan::of_read
