// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/process_topology.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::areal {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

/// `['pipe', 'data']`
std::string list_text(std::vector<std::string> names) {
    for (auto& name : names) name = cat("'", name, "'");
    return cat("[", detail::with_commas(names), "]");
}

/// What AReaL calls a coordinate of these axes; throws for axes that it does not know.
std::string_view coord_of(const std::vector<std::string>& axes) {
    if (axes == std::vector<std::string>{"pipe", "data", "tensor"}) return "PipeDataTensorProcessCoord";
    if (axes == std::vector<std::string>{"data", "pipe", "tensor"}) return "DataPipeTensorProcessCoord";
    throw Error(Fault::unknown, cat("Corresponding coordinate namedtuple not implemented for axes ",
                                    list_text(axes), ". Check base/topology.py and implement explicitly."));
}

}  // namespace

ProcessTopology::ProcessTopology(const std::vector<std::string>& axes, const std::vector<int>& dims)
    : deepspeed::ProcessTopology(axes, dims, {.coord = coord_of(axes), .world_digits = true}) {}

std::string ProcessTopology::repr() const {
    return cat("ProcessTopology(axes=", list_text(axes()), ", dims=[", detail::with_commas(dims()), "])");
}

std::vector<std::array<int, 3>> decompose_to_three_factors(int n) {
    if (n < 0) throw Error(Fault::argument, cat("decompose ", n, " to three factors; give 0 or more"));
    auto factors = std::vector<std::array<int, 3>>{};
    for (int i = 1; i <= n / i; ++i)
        for (int j = i; n % i == 0 && j <= n / i / j; ++j) {
            if (n / i % j != 0) continue;
            auto triple = std::array{i, j, n / i / j};  // rising: the first of its permutations
            do factors.push_back(triple);
            while (std::ranges::next_permutation(triple).found);
        }
    return factors;
}

}  // namespace rankmesh::areal
