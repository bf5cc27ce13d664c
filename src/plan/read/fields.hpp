// SPDX-License-Identifier: Apache-2.0
// The values of a model, by their names in a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/read.hpp>

#include "formats/json.hpp"

namespace rankmesh::plan::of_read {

using detail::cat;
using detail::in_quotes;
using formats::Json;

/// The fields of one text by name. Errors begin with the source and name the field.
class Fields {
public:
    Fields(std::string source, Json values) : source_(std::move(source)), values_(std::move(values)) {}

    const std::string& source() const { return source_; }
    const Json& values() const { return values_; }

    [[noreturn]] void fail(std::string_view why) const { throw UsageError(cat(source_, ": ", why)); }

    /// Returns the first of these fields that exists and is not null.
    const Json* find(std::initializer_list<std::string_view> names) const;
    /// Returns a whole number from `least` to the largest int.
    std::optional<int> number(std::initializer_list<std::string_view> names, int least = 1) const;
    /// Returns the number of a required field; errors call it `what`.
    int needed(std::initializer_list<std::string_view> names, std::string_view what) const;
    std::optional<bool> flag(std::initializer_list<std::string_view> names) const;
    bool was_read(std::string_view name) const { return std::ranges::find(read_, name) != read_.end(); }
    std::optional<std::string> word(std::initializer_list<std::string_view> names) const;

protected:
    /// Sets a value; `given` ones come before the others.
    void set(const std::string& name, Json value, bool given) {
        if (given) first_[name] = value;
        values_[name] = std::move(value);
    }

private:
    [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view wanted) const;

    std::string_view name_in(std::initializer_list<std::string_view> names) const;

    std::string source_;
    Json values_;
    Json first_ = Json::object();
    mutable std::vector<std::string> read_ = {};  ///< names that were asked for
};

/// Reads Hugging Face's config.json.
Model of_config(const Fields& fields, Checkpoint& checkpoint);
/// Reads quantization_config of a config.json, or hf_quant_config.json.
void read_quantization(const Json& values, Checkpoint& checkpoint);
/// Reads Megatron's flags from a text, which may be a shell script.
Model of_flags(const std::string& text, const std::string& source, Checkpoint& checkpoint);

}  // namespace rankmesh::plan::of_read
