// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

/// The text by which a rank tells others of a failure: three lists of ranks, the reason, and what ranks were
/// last seen doing, with zero bytes between. It has at most `most` bytes unless the reason is longer; lists
/// that take a quarter of them are left out.
std::string text_of(const Failure& failure, std::size_t most = std::string::npos);
/// Reads such a text, which ends with a zero byte; throws EngineFailure for any other, and for more than
/// `most_ranks` in a list.
Failure failure_from(std::uint32_t kind, std::string_view text, std::size_t most_ranks);

}  // namespace rankmesh::detail
