// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/exchange.hpp"

namespace rankmesh::detail {

/// Gathers data of all ranks on every rank: up a binomial tree to rank 0 and down again. On the way up `take`
/// gets what the ranks beneath this one have packed, and `pack` returns that together with this rank's own.
template <class Take, class Pack>
std::string gather(Exchange& exchange, Take&& take, Pack&& pack) {
    const auto rank = exchange.rank();
    const auto size = exchange.size();
    auto step = 1;
    for (; step < size && (rank & step) == 0; step *= 2)
        if (rank + step < size) take(exchange.receive(rank + step));
    auto packed = std::string(pack());
    if (rank != 0) {
        exchange.send(rank - step, packed);
        packed = exchange.receive(rank - step);
    }
    for (step /= 2; step >= 1; step /= 2)
        if (rank + step < size) exchange.send(rank + step, packed);
    return packed;
}

}  // namespace rankmesh::detail
