// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/failure.hpp"

namespace rankmesh::detail {

/// The text by which the monitors of a channel tell each other of a failure, in at most `most` bytes as far
/// as its reason is not longer: three lists of ranks, the reason, and what ranks were last seen doing, each
/// with a zero byte between.
std::string text_of(const Failure& failure, std::size_t most);
/// Reads such a text, which ends with a zero byte; throws EngineFailure for any other, and for more than
/// `most_ranks` in a list.
Failure failure_from(std::uint32_t kind, std::string_view text, std::size_t most_ranks);

}  // namespace rankmesh::detail
