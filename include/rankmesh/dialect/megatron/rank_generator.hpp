// SPDX-License-Identifier: Apache-2.0
// Megatron-core's RankGenerator: a mesh whose axes are listed innermost first.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh::megatron {

/// The groups of ranks along the axes that `order` lists innermost first: of `tp-dp-pp` tp is fastest.
///
///     megatron::RankGenerator({.tp = 2, .dp = 4, .order = "tp-dp"}).get_ranks("dp")[0].back() == 6
class RANKMESH_EXPORT RankGenerator {
public:
    struct Arguments {
        int tp = 1;
        int ep = 1;
        int dp = 1;
        int pp = 1;
        int cp = 1;
        std::string order = "tp-cp-ep-dp-pp";
        int rank_offset = 0;
        int gtp_remat = 1;
    };

    /// Throws dialect::Error if ep and cp are both above 1, `order` lacks an axis of more than one rank or
    /// names an unknown one, and dialect::Refusal for a size below 1, a negative offset or a size listed
    /// twice.
    explicit RankGenerator(const Arguments& arguments);

    /// The number of ranks: the product of all sizes.
    int world_size() const { return world_size_; }
    /// The order in small letters, with the axes of size 1 that it lacked appended.
    const std::string& order() const { return order_; }
    /// The sizes of the tokens of `order()`.
    const std::vector<int>& ordered_size() const { return ordered_size_; }
    const Arguments& arguments() const { return arguments_; }

    /// For each token of `order` whether `token`, one or several with `-` between them, lists it; throws
    /// dialect::Error where one of them is not in `order`.
    std::vector<bool> get_mask(std::string_view order, std::string_view token) const;
    /// All groups along the axes of `token`, whose order does not matter, by their first ranks.
    ///
    /// Throws dialect::Error for a token that `order()` lacks, or if `order()` lacks an axis of more than one
    /// rank.
    Partition get_ranks(std::string_view token) const;

    /// The same ranks as a mesh, outermost axis first; throws what get_ranks throws.
    const Mesh& mesh() const;
    /// The axes of a token in that mesh; throws dialect::Error for one that `order()` lacks.
    AxisSet axes(std::string_view token) const;

private:
    Arguments arguments_;
    int world_size_ = 1;
    std::string order_;
    std::vector<int> ordered_size_;
    Mesh mesh_;
};

/// `order` with `gtp_remat` after the axis `after`, else after tp, else first; `order` itself if it has it.
RANKMESH_EXPORT std::string inject_gtp_remat_axis(std::string_view order, std::string_view after = "tp");

/// Which of a pipeline's ranks hold word embeddings: the first and the last.
RANKMESH_EXPORT std::vector<int> default_embedding_ranks(std::span<const int> pp_ranks);
/// Which of a pipeline's ranks hold position embeddings: the first.
RANKMESH_EXPORT std::vector<int> default_position_embedding_ranks(std::span<const int> pp_ranks);

/// `dp-cp` as `dp` and `cp`; of `a--b` the second is empty.
RANKMESH_EXPORT std::vector<std::string> tokens(std::string_view joined);

}  // namespace rankmesh::megatron
