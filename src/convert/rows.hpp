// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/frameworks/groups.hpp>

#include "convert/words.hpp"

namespace rankmesh::conversion {

/// The converter of a framework that is described by rows, which must outlive it.
Converter of_rows(const frameworks::Framework& rows);

/// A setting or an answer.
Json json_of(const frameworks::Value& value);

/// What a framework calls its groups, and what it answers.
Words words_of(const frameworks::Groups& groups);

}  // namespace rankmesh::conversion
