// SPDX-License-Identifier: Apache-2.0
#include "plan/read/family.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/detail/number.hpp>

#include "plan/data.hpp"

namespace rankmesh::plan::of_read {

/// Returns the first of these names whose value exists and is not null.
std::string_view Fields::name_in(std::initializer_list<std::string_view> names) const {
    for (const auto name : names)
        if (!was_read(name)) read_.emplace_back(name);
    for (const auto* values : {&first_, &values_})
        for (const auto name : names)
            if (values->contains(name) && !(*values)[name].is_null()) return name;
    return {};
}

const Json* Fields::find(std::initializer_list<std::string_view> names) const {
    const auto name = name_in(names);
    return name.empty() ? nullptr : &values_[name];
}

void Fields::refuse(std::string_view name, const Json& value, std::string_view wanted) const {
    fail(cat(name, " is ", formats::excerpt(value), "; it must be ", wanted));
}

std::optional<int> Fields::number(std::initializer_list<std::string_view> names, int least) const {
    const auto* value = find(names);
    if (value == nullptr) return std::nullopt;
    constexpr auto most = std::numeric_limits<int>::max();
    if (!value->is_number_integer() || *value < least || *value > most)
        refuse(name_in(names), *value, cat("a whole number from ", least, " to ", most));
    return value->get<int>();
}

int Fields::needed(std::initializer_list<std::string_view> names, std::string_view what) const {
    if (const auto value = number(names)) return *value;
    fail(cat("has no ", *names.begin(), ", ", what, "; add it"));
}

std::optional<bool> Fields::flag(std::initializer_list<std::string_view> names) const {
    const auto* value = find(names);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) refuse(name_in(names), *value, "true or false");
    return value->get<bool>();
}

std::optional<std::string> Fields::word(std::initializer_list<std::string_view> names) const {
    const auto* value = find(names);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(name_in(names), *value, "a string");
    return value->text();
}

namespace of_family {

/// A line of the table. The line `*` lists keys without effect, and `+` the letters of words in lists of
/// layers.
struct Line {
    std::string_view tags;
    std::string_view keys;
};

/// Returns the lines of the table by model type.
const std::map<std::string_view, Line>& lines() {
    static const auto all = [] {
        auto found = std::map<std::string_view, Line>{};
        for (auto rest = families_csv; !rest.empty();) {
            const auto line = rest.substr(0, rest.find('\n'));
            rest.remove_prefix(std::min(rest.size(), line.size() + 1));
            const auto type = line.find(','), tags = line.find(',', type + 1);
            found.emplace(line.substr(0, type),
                          Line{line.substr(type + 1, tags - type - 1), line.substr(tags + 1)});
        }
        return found;
    }();
    return all;
}

Json value_of(std::string_view text) {
    if (text.empty()) return nullptr;
    if (text == "true" || text == "false") return text == "true";
    if (const auto number = detail::number_in<std::int64_t>(text)) return *number;
    if (text.find(';') == std::string_view::npos) return std::string(text);
    auto list = Json::array();  // `0;1;`
    for (; !text.empty(); text.remove_prefix(text.find(';') + 1))
        list.push_back(value_of(text.substr(0, text.find(';'))));
    return list;
}

/// Returns the letter of a word in a list of layers; 0: not known.
char letter_of(std::string_view word) {
    auto letter = '\0';
    for_each_word(lines().at("+").keys, [&](std::string_view one) {
        if (const auto [name, value] = name_and_value(one); name == word) letter = value.front();
    });
    return letter;
}

}  // namespace of_family

bool Family::is_known(std::string_view type) { return of_family::lines().contains(type); }

Family::Family(const Fields& given) : Fields(given.source(), Json::object()), given_(given.values()) {
    for (const auto* outer : {"attn_config", "ffn_config", "linear_attn_config"})
        if (given_.contains(outer) && given_[outer].is_object())
            for (const auto& [name, value] : given.values()[outer].items())
                given_[cat(outer, '.', name)] = value;
    type_ = given.word({"model_type"}).value_or("");
    if (!is_known(type_) || of_family::lines().at(type_).tags == "beyond")
        fail(cat("plan does not know the model type ", in_quotes(type_), "; ",
                 detail::in_python("rankmesh.plan_model(path).save('model.json') reads it by transformers",
                                   "give its sizes in a line, such as 'layers=32 hidden=4096 heads=32 kv=8 "
                                   "ffn=14336 gated vocab=128256'")));
    for_each_word(of_family::lines().at(type_).tags,
                  [&](std::string_view word) { tags_.emplace_back(word); });
    for_each_word(of_family::lines().at(type_).keys, [&](std::string_view word) {
        const auto [name, value] = name_and_value(word);
        const auto here = given_.contains(name);
        const auto counts_tokens = std::ranges::any_of(
            std::array{"vocab", "position", "window", "chunk"},
            [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
        if (here && !counts_tokens) check_large(name, given_[name]);
        set(std::string(name), here ? given_[name] : of_family::value_of(value), here);
    });
}

/// Refuses a number, or one of a list, that is so large that products of such sizes do not fit in 64 bits.
void Family::check_large(std::string_view name, const Json& value) const {
    constexpr auto most = 1 << 19;
    if (value.is_array())
        for (const auto& one : value) check_large(name, one);
    else if (value.is_number_integer() && value > most)
        fail(cat(name, " is ", formats::excerpt(value), ", which is too large; it must be at most ", most));
}

bool Family::has(std::string_view tag) const { return std::ranges::find(tags_, tag) != tags_.end(); }

bool Family::gives(std::initializer_list<std::string_view> names) const {
    return std::ranges::any_of(names, [&](auto name) {
        return values().contains(name) && given_.contains(name) && !given_[name].is_null();
    });
}

int Family::at(int i, std::initializer_list<std::string_view> names, int otherwise) const {
    // Gemma 4 lists the layers that differ, by their numbers.
    if (const auto* layers = find({"per_layer_config"}); layers != nullptr && layers->is_object())
        for (const auto& [layer, own] : layers->items())
            if (detail::number_in(layer) == i && own.is_object() && values().contains(*names.begin()) &&
                own.contains(*names.begin()))
                return Fields(cat(source(), " in per_layer_config"), own)
                    .number(names, 0)
                    .value_or(otherwise);
    const auto* value = find(names);
    if (value == nullptr || !value->is_array()) return number(names, 0).value_or(otherwise);
    if (std::cmp_less_equal(value->size(), i))
        fail(cat(*names.begin(), " has ", value->size(), " numbers, fewer than layers"));
    auto one = Json::object();
    one.add("number", *(value->begin() + i));
    return Fields(cat(source(), " in ", *names.begin()), one).number({"number"}, 0).value_or(otherwise);
}

bool Family::lists(std::string_view name, int number) const {
    const auto* value = find({name});
    if (value == nullptr) return false;
    if (!value->is_array()) fail(cat(name, " is ", formats::excerpt(*value), "; it must be a list"));
    return std::ranges::find(*value, Json(number)) != value->end();
}

std::string Family::letters(std::initializer_list<std::string_view> names, int layers) const {
    const auto* value = find(names);
    auto all = std::string{};
    if (value == nullptr) return all;
    const auto unknown = [&](const auto& word) {
        fail(cat("plan does not know a layer of the kind ", in_quotes(word), " in ", *names.begin()));
    };
    if (value->is_array()) {
        for (const auto& one : *value) {
            auto letter = one.is_string() ? of_family::letter_of(one.text()) : '\0';
            if (letter == 'L' && has("conv") != (one.text() == "conv")) letter = '\0';
            if (one.is_number_integer())
                all += one == Json(0) ? '0' : '1';
            else if (letter == '\0')
                unknown(one.is_string() ? one.text() : one.dump());
            else
                all += letter;
        }
        if (has("cycle"))
            for (std::size_t i = 0; !all.empty() && std::cmp_less(all.size(), layers); ++i) all += all[i];
    } else if (value->is_string() && value->text().find(':') < value->text().size() - 1) {
        const auto& pattern = value->text();
        const auto period = pattern.substr(pattern.find(':') + 1);
        all = pattern.substr(0, pattern.find(':'));
        for (std::size_t i = 0; std::cmp_less(all.size(), layers); ++i) all += period[i % period.size()];
        all.resize(static_cast<std::size_t>(layers));
    } else if (value->is_string()) {
        // Of Nemotron-H: Mamba-2, attention, experts, a dense network.
        for (const auto c : value->text())
            if (const auto kind = std::string_view("M*E-").find(c); kind != std::string_view::npos)
                all += std::string_view("LFED")[kind];
            else
                unknown(std::string(1, c));
    } else {
        fail(cat(*names.begin(), " is ", formats::excerpt(*value), "; it must be a list"));
    }
    if (std::cmp_not_equal(all.size(), layers))
        fail(cat(*names.begin(), " has ", all.size(), " entries for ", layers, " layers"));
    return all;
}

std::vector<std::string> Family::unused() const {
    auto found = std::vector<std::string>{};
    auto ignored = std::vector<std::string_view>{};
    for_each_word(of_family::lines().at("*").keys, [&](std::string_view word) {
        // A key with a value is without effect if it has this value.
        const auto [name, value] = name_and_value(word);
        if (value.empty() || (given_.contains(name) && given_[name] == of_family::value_of(value)))
            ignored.push_back(name);
    });
    for (const auto& [name, value] : given_.items())
        if (const auto last = name.substr(name.rfind('.') + 1);
            !values().contains(name) && !value.is_null() && !std::ranges::binary_search(ignored, last))
            found.push_back(name);
    return found;
}

}  // namespace rankmesh::plan::of_read
