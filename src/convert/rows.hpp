// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/frameworks/groups.hpp>

#include "convert/words.hpp"

namespace rankmesh::conversion {

/// A framework that is described by rows, which must outlive it.
Framework of_rows(const frameworks::Framework& rows);

/// What a framework calls its groups, and what it answers.
Words words_of(const frameworks::Groups& groups);

}  // namespace rankmesh::conversion
