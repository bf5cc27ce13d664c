// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/membership/rendezvous_config.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// Opens the store that the configuration names: a folder, a Redis server, or what rank 0 serves; null in a
/// world of one.
std::shared_ptr<Store> open_store(const RendezvousConfig& config);

}  // namespace rankmesh::detail
