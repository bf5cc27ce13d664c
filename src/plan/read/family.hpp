// SPDX-License-Identifier: Apache-2.0
// The families of models in src/plan/data/families.csv, and a config.json with the defaults of its family.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/read/fields.hpp"

namespace rankmesh::plan::of_read {

/// A config.json beside the keys and defaults that transformers has for its model type.
class Family : public Fields {
public:
    /// Throws UsageError if the table does not have the model type.
    explicit Family(const Fields& given);

    const std::string& type() const { return type_; }
    bool has(std::string_view tag) const;
    /// Returns whether the file gives one of these keys.
    bool gives(std::initializer_list<std::string_view> names) const;
    /// Returns number `i` of a list, or a number that counts for all layers; `otherwise` if it is absent.
    int at(int i, std::initializer_list<std::string_view> names, int otherwise) const;
    bool is(std::string_view name) const { return flag({name}).value_or(false); }
    /// Returns one letter for each layer from a list of words or numbers, a text, or the pattern of the
    /// table: `D:E` is one D and then E, `:SSF` repeats SSF. Empty if absent.
    std::string letters(std::initializer_list<std::string_view> names, int layers) const;
    /// Returns the keys of the file that neither the table nor its list of keys without effect has.
    std::vector<std::string> unused() const;

    static bool is_known(std::string_view type);

private:
    std::string type_;
    std::vector<std::string> tags_;
    Json given_;
};

/// Returns a layer of the gated delta rule or of Mamba-2.
Layer delta(std::int64_t hidden, std::int64_t heads, std::int64_t key_heads, std::int64_t key_dim,
            std::int64_t dim, std::int64_t kernel);
Layer mamba2(std::int64_t hidden, std::int64_t inner, int heads, std::int64_t n, std::int64_t groups,
             std::int64_t kernel);

/// Sets the sizes of a layer that keeps a state.
void read_state(const Family& family, int hidden, Layer& layer);

}  // namespace rankmesh::plan::of_read
