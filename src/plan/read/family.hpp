// SPDX-License-Identifier: Apache-2.0
// The values of a model by their names in a file; the families of models in src/plan/data/families.csv, and a
// config.json with the defaults of its family.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/read.hpp>

#include "formats/json.hpp"
#include "plan/csv.hpp"

namespace rankmesh::plan::of_read {

using formats::Json;

/// Returns whether a text has one of some parts.
inline bool has_part(std::string_view text, std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(parts, [&](auto part) { return text.find(part) != std::string_view::npos; });
}

/// Returns the value of a word in a line of the table; "": it is not there. The line `~` says by what a model
/// that holds a language model ties its head: `true` or `false`, unless the file says otherwise beside it;
/// `inner` or `either`.
std::string_view value_in(std::string_view line, std::string_view word);
/// Returns the last value of a line of the table whose word is a part of a text.
std::string_view kind_of_part(std::string_view line, std::string_view text);
/// Reads `true`, `8`, a text, or a list such as `0;1;`; null if it is empty.
Json value_of(std::string_view text);

/// The fields of one text by name. Errors begin with the source and name the field.
class Fields {
public:
    Fields(std::string source, Json values) : values_(std::move(values)), source_(std::move(source)) {}

    const std::string& source() const { return source_; }
    const Json& values() const { return values_; }

    [[noreturn]] void fail(std::string_view why) const { throw UsageError(cat(source_, ": ", why)); }

    /// Returns the field of that name, or of another name that the table has for it, unless it is null.
    const Json* find(std::string_view name) const;
    /// Returns a whole number from `least` to the largest int.
    std::optional<int> number(std::string_view name, int least = 1) const;
    /// Returns the number of a required field; errors call it `what`.
    int needed(std::string_view name, std::string_view what) const;
    bool is(std::string_view name) const;
    bool was_read(std::string_view name) const { return std::ranges::find(read_, name) != read_.end(); }
    std::string word(std::string_view name) const;

protected:
    Json values_;
    Json first_ = Json::object();  ///< of the values, those that come before the others

private:
    [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view wanted) const;

    std::string_view name_in(std::string_view name) const;

    std::string source_;
    mutable std::vector<std::string> read_ = {};  ///< names that were asked for
};

/// A config.json beside the keys and defaults that transformers has for its model type.
class Family : public Fields {
public:
    /// Throws UsageError if the table does not have the model type.
    explicit Family(const Fields& given);

    const std::string& type() const { return type_; }
    bool has(std::string_view tag) const;
    bool knows(std::string_view name) const;
    bool gives(std::string_view name) const;
    /// Returns number `i` of a list, or a number that counts for all layers; `otherwise` if it is absent.
    int at(int i, std::string_view name, int otherwise) const;
    /// Returns whether a list has a number.
    bool lists(std::string_view name, int number) const;
    /// Returns one letter for each layer from a list of words or numbers, a text, or the pattern of the
    /// table: `D:E` is one D and then E, `:SSF` repeats SSF. Empty if absent.
    std::string letters(std::string_view name, int layers) const;
    /// Returns the keys of the file that neither the table nor its list of keys without effect has.
    std::vector<std::string> unused() const;

    static bool is_known(std::string_view type);

private:
    void check_large(std::string_view name, const Json& value) const;

    std::string type_;
    std::vector<std::string> tags_;
    Json given_;
};

/// Reads Hugging Face's config.json.
Model of_config(const Fields& fields, Checkpoint& checkpoint);
/// Reads quantization_config of a config.json, or hf_quant_config.json.
void read_quantization(const Json& values, Checkpoint& checkpoint);
/// Reads Megatron's flags from a text, which may be a shell script.
Model of_flags(const std::string& text, const std::string& source, Checkpoint& checkpoint);

}  // namespace rankmesh::plan::of_read
