// SPDX-License-Identifier: Apache-2.0
// Models: the layers of a language model and their parameter counts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::plan {

/// A type of numbers. Only bf16 and fp8 are multiplied; weights in the others are widened first.
enum class Precision : std::uint8_t { bf16, fp8, int8, nvfp4, mxfp4, int4 };

/// One layer: what mixes the tokens of a sequence, and a feed-forward network. 0 means that the part is
/// absent.
struct Layer {
    int heads = 0;      ///< of queries, or of the state; 0: nothing mixes tokens
    int kv_heads = 0;   ///< 0: the keys and values of an earlier layer
    int head_dim = 0;   ///< of queries and keys, without `rope_dim`; 0: no attention
    int value_dim = 0;  ///< of values
    int window = 0;     ///< keys that a query sees; 0: all
    bool gate = false;  ///< a gate as wide as the queries multiplies the output of attention
    int q_rank = 0;     ///< multi-head latent attention (DeepSeek): rank of the query projection
    int kv_rank = 0;    ///< rank of the key-value projection; above 0: attention is latent
    int rope_dim = 0;   ///< rotary dimensions per head, in addition to `head_dim`
    /// Linear attention or a state space model, instead of attention or beside it: the numbers that it keeps
    /// of a sequence.
    std::int64_t state = 0;
    std::int64_t weights = 0;  ///< the parameters of its matrices
    int ffn = 0;               ///< hidden size of the feed-forward network
    bool gated = false;        ///< each feed-forward network has three matrices instead of two
    int experts = 0;
    int top_k = 0;  ///< experts per token
    int expert_ffn = 0;
    int shared_ffn = 0;     ///< hidden size of the shared expert, which sees every token
    std::int64_t more = 0;  ///< parameters beside the matrices and two norms, such as biases
    friend bool operator==(const Layer&, const Layer&) = default;

    double matrices() const { return gated ? 3.0 : 2.0; }
};

/// Equal layers, one after another.
struct Run {
    int kind = 0;  ///< index into the kinds of the model
    int count = 0;
    friend bool operator==(const Run&, const Run&) = default;
};

/// A decoder-only language model: runs of equal layers between an embedding and a head.
///
///     auto model = plan::Model{.name = "8B", .hidden = 4096, .vocabulary = 128256};
///     model.add(32, {.heads = 32, .kv_heads = 8, .head_dim = 128, .value_dim = 128, .ffn = 14336, .gated =
///     true}); EXPECT_EQ(plan::parameters(model).total, 8030261248);
struct Model {
    std::string name = {};
    int hidden = 0;
    int vocabulary = 0;
    bool tied = false;      ///< embedding and head share one matrix
    std::int64_t more = 0;  ///< parameters beside layers, embedding and head, such as learned positions
    int predictors = 0;  ///< multi-token prediction: further layers as the last one, with heads, in training
    int most_nodes = 0;  ///< nodes to which a token is routed at most; 0: no limit
    std::int64_t sequence = 0;      ///< tokens per sequence if the job does not say
    std::vector<Layer> kinds = {};  ///< different layers
    std::vector<Run> runs = {};     ///< the layers in their order
    friend bool operator==(const Model&, const Model&) = default;

    /// Appends equal layers.
    RANKMESH_EXPORT void add(int count, const Layer& layer);
    /// Returns the number of layers.
    RANKMESH_EXPORT int layers() const;
    /// Returns the number of layers of each kind.
    RANKMESH_EXPORT std::vector<int> counts() const;
    /// Returns the largest size of that name of a layer.
    RANKMESH_EXPORT int most(int Layer::*size) const;
    /// Returns the least number of kv heads of a layer that has them and is not latent; 0: no layer has them.
    RANKMESH_EXPORT int kv_heads() const;
    /// Returns the greatest common divisor of the numbers of experts; 0: no layer has experts.
    RANKMESH_EXPORT int experts() const;
};

/// Parameter counts in closed form.
struct Parameters {
    struct OfLayer {
        std::int64_t mixer = 0;   ///< what mixes tokens
        std::int64_t expert = 0;  ///< one expert
        std::int64_t beside = 0;  ///< everything but experts
        std::int64_t all = 0;     ///< including all experts
        std::int64_t active = 0;  ///< that one token uses
    };
    std::vector<OfLayer> kinds = {};  ///< of one layer of each kind
    std::int64_t embedding = 0;       ///< one matrix of vocabulary times hidden
    std::int64_t total = 0;
    std::int64_t active = 0;
};

/// Throws UsageError, which names the size, if a size is impossible.
RANKMESH_EXPORT void check(const Model& model);

/// Returns the parameter counts of a model, which `check` must accept.
RANKMESH_EXPORT Parameters parameters(const Model& model);

/// Returns the kinds of layers as text: `52 layers: 6 attention (2 kv heads), 23 with a state, 23 experts
/// (128, 6 a token)`.
RANKMESH_EXPORT std::string layers_text(const Model& model);

/// Returns the model as a line of sizes, without sizes of 0: `layers=32 heads=32 ...`. `read_model_text`
/// reads it.
RANKMESH_EXPORT std::string to_line(const Model& model);

/// Returns the built-in models, from `src/plan/data/models.csv`.
RANKMESH_EXPORT std::span<const Model> models();

/// Reads models from text with the columns `model` and `sizes`, a line of sizes. Throws UsageError with
/// `file` and the line.
RANKMESH_EXPORT std::vector<Model> read_models(std::string_view text, std::string_view file);

}  // namespace rankmesh::plan
