// SPDX-License-Identifier: Apache-2.0
// How settings of a framework that is described by rows are read and written.
#pragma once

#include "convert/words.hpp"
#include "frameworks/kinds.hpp"

namespace rankmesh::conversion {

/// The converter of a framework that is described by rows, which must outlive it.
Converter of_rows(const frameworks::Framework& rows);

/// A setting or an answer.
Json json_of(const frameworks::Value& value);

/// What a framework calls its groups, and what it answers.
Words words_of(const frameworks::Groups& groups);

// --- what only its two sources share

/// What was given, and the ranks that are known or counted.
struct Read {
    frameworks::Values values;
    frameworks::Groups groups;
};

Read groups_of(const frameworks::Framework& rows, Settings& settings, std::optional<int> world);

/// The arrangement that settings say.
Arrangement read(const frameworks::Framework& rows, Settings& settings, std::optional<int> world);

/// The value of a setting under one of its names.
std::optional<frameworks::Value> value_of(Settings& settings, const frameworks::Setting& row,
                                          const std::string& name);

/// Its name in a table or on a command line.
std::string name_outside(const frameworks::Setting& row);

std::string_view role(const frameworks::Framework& rows, std::string_view axis);

/// The name of a setting that only its framework has: `verl's rollout_tensor_model_parallel_size`.
std::string own_name(const frameworks::Framework& rows, std::string_view name);

/// The part of the layers of virtual stages that an extra names; null for other extras.
int StageLayers::*part_of_stages(std::string_view extra);

/// True for a schedule of several virtual stages a rank.
bool has_stages(const Arrangement& arrangement);

}  // namespace rankmesh::conversion
