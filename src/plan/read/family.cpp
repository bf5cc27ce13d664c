// SPDX-License-Identifier: Apache-2.0
#include "plan/read/family.hpp"

#include <limits>
#include <map>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/detail/number.hpp>

#include "formats/text.hpp"

namespace rankmesh::plan::of_read {

namespace of_family {

/// A line of the table. The line `*` lists keys without effect, `+` the letters of words in lists of layers,
/// and `=` the names of one key in different families, in the order in which they count.
struct Line {
    std::string_view tags;
    std::string_view keys;
};

const std::map<std::string_view, Line>& lines() {
    static const auto all = [] {
        auto found = std::map<std::string_view, Line>{};
        for (const auto line : formats::split(families_csv, '\n'))
            if (const auto parts = formats::split(line, ','); parts.size() == 3)
                found.emplace(parts[0], Line{parts[1], parts[2]});
        return found;
    }();
    return all;
}

std::vector<std::string_view> names_of(std::string_view name) {
    static const auto all = [] {
        auto found = std::map<std::string_view, std::vector<std::string_view>>{};
        for_each_word(lines().at("=").keys, [&](std::string_view word) {
            const auto [one, names] = name_and_value(word);
            found[one] = formats::split(names, ';');
        });
        return found;
    }();
    const auto known = all.find(name);
    return known == all.end() ? std::vector{name} : known->second;
}

}  // namespace of_family

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

std::string_view kind_of_part(std::string_view line, std::string_view text) {
    auto found = std::string_view{};
    for_each_word(of_family::lines().at(line).keys, [&](std::string_view one) {
        if (const auto [part, kind] = name_and_value(one); has_part(text, {part})) found = kind;
    });
    return found;
}

std::string_view value_in(std::string_view line, std::string_view word) {
    auto found = std::string_view{};
    for_each_word(of_family::lines().at(line).keys, [&](std::string_view one) {
        if (const auto [name, value] = name_and_value(one); name == word) found = value;
    });
    return found;
}

/// Returns the name of this field in the text; empty if it is absent or null.
std::string_view Fields::name_in(std::string_view name) const {
    const auto names = of_family::names_of(name);
    for (const auto one : names)
        if (!was_read(one)) read_.emplace_back(one);
    for (const auto* values : {&first_, &values_})
        for (const auto one : names)
            if (values->contains(one) && !(*values)[one].is_null()) return one;
    return {};
}

const Json* Fields::find(std::string_view name) const {
    const auto known = name_in(name);
    return known.empty() ? nullptr : &values_[known];
}

void Fields::refuse(std::string_view name, const Json& value, std::string_view wanted) const {
    fail(cat(name_in(name), " is ", formats::excerpt(value), "; it must be ", wanted));
}

std::optional<int> Fields::number(std::string_view name, int least) const {
    const auto* value = find(name);
    if (value == nullptr) return std::nullopt;
    constexpr auto most = std::numeric_limits<int>::max();
    if (!value->is_number_integer() || *value < least || *value > most)
        refuse(name, *value, cat("a whole number from ", least, " to ", most));
    return value->get<int>();
}

int Fields::needed(std::string_view name, std::string_view what) const {
    if (const auto value = number(name)) return *value;
    fail(cat("has no ", name, ", ", what, "; add it"));
}

bool Fields::is(std::string_view name) const {
    const auto* value = find(name);
    if (value != nullptr && !value->is_boolean()) refuse(name, *value, "true or false");
    return value != nullptr && value->get<bool>();
}

std::string Fields::word(std::string_view name) const {
    const auto* value = find(name);
    if (value != nullptr && !value->is_string()) refuse(name, *value, "a string");
    return value == nullptr ? "" : value->text();
}

bool Family::is_known(std::string_view type) {
    const auto line = of_family::lines().find(type);
    return line != of_family::lines().end() && !line->second.tags.starts_with("beyond");
}

Family::Family(const Fields& given) : Fields(given.source(), Json::object()), given_(given.values()) {
    for (const auto* outer : {"attn_config", "ffn_config", "linear_attn_config", "attention_other_setting"})
        if (given_.contains(outer) && given_[outer].is_object())
            for (const auto& [name, value] : given.values()[outer].items())
                given_[cat(outer, '.', name)] = value;
    type_ = given.word("model_type");
    if (!is_known(type_))
        fail(cat("plan does not know the model type ", in_quotes(type_), "; ",
                 detail::in_python("rankmesh.plan_model(path).save('model.json') reads it by transformers",
                                   "give its sizes in a line, such as 'layers=32 hidden=4096 heads=32 kv=8 "
                                   "ffn=14336 gated vocab=128256'")));
    for_each_word(of_family::lines().at(type_).tags,
                  [&](std::string_view word) { tags_.emplace_back(word); });
    for_each_word(of_family::lines().at(type_).keys, [&](std::string_view word) {
        const auto [name, value] = name_and_value(word);
        const auto here = given_.contains(name);
        if (here && !has_part(name, {"vocab", "position", "window", "chunk"}))
            check_large(name, given_[name]);
        values_[name] = here ? given_[name] : value_of(value);
        if (here) first_[name] = given_[name];
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

bool Family::knows(std::string_view name) const {
    return std::ranges::any_of(of_family::names_of(name), [&](auto one) { return values().contains(one); });
}

bool Family::gives(std::string_view name) const {
    return std::ranges::any_of(of_family::names_of(name), [&](auto one) {
        return values().contains(one) && given_.contains(one) && !given_[one].is_null();
    });
}

int Family::at(int i, std::string_view name, int otherwise) const {
    // Gemma 4 lists the layers that differ, by their numbers.
    if (const auto* layers = find("per_layer_config"); layers != nullptr && layers->is_object())
        for (const auto& [layer, own] : layers->items())
            if (detail::number_in(layer) == i && own.is_object() && values().contains(name) &&
                own.contains(name))
                return Fields(cat(source(), " in per_layer_config"), own).number(name, 0).value_or(otherwise);
    const auto* value = find(name);
    if (value == nullptr || !value->is_array()) return number(name, 0).value_or(otherwise);
    if (std::cmp_less_equal(value->size(), i))
        fail(cat(name, " has ", value->size(), " numbers, fewer than layers"));
    const auto one = Fields(cat(source(), " in ", name), Json{{"number", *(value->begin() + i)}});
    return one.number("number", 0).value_or(otherwise);
}

bool Family::lists(std::string_view name, int number) const {
    const auto* value = find(name);
    if (value == nullptr) return false;
    if (value->is_string()) {  // Step: `3,4,5`
        auto found = false;
        for_each_word(value->text(), [&](auto word) { found = found || word == std::to_string(number); });
        return found;
    }
    if (!value->is_array()) fail(cat(name, " is ", formats::excerpt(*value), "; it must be a list"));
    return std::ranges::find(*value, Json(number)) != value->end();
}

std::string Family::letters(std::string_view name, int layers) const {
    const auto* value = find(name);
    auto all = std::string{};
    if (value == nullptr) return all;
    const auto unknown = [&](const auto& word) {
        fail(cat("plan does not know a layer of the kind ", in_quotes(word), " in ", name));
    };
    if (value->is_array()) {
        for (const auto& one : *value) {
            auto letter = one.is_string() ? value_in("+", one.text()) : std::string_view{};
            if (letter == "L" && has("conv") != (one.text() == "conv")) letter = {};
            if (one.is_number_integer())
                letter = one == Json(0) ? "0" : "1";
            else if (letter.empty())
                unknown(one.is_string() ? one.text() : one.dump());
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
        fail(cat(name, " is ", formats::excerpt(*value), "; it must be a list"));
    }
    // Layers of multi-token prediction, which transformers leaves out, may stand behind the others.
    if (std::cmp_equal(all.size(), layers + at(0, "num_nextn_predict_layers", 0)))
        all.resize(static_cast<std::size_t>(layers));
    if (std::cmp_not_equal(all.size(), layers))
        fail(cat(name, " has ", all.size(), " entries for ", layers, " layers"));
    return all;
}

std::vector<std::string> Family::unused() const {
    auto found = std::vector<std::string>{};
    auto ignored = std::vector<std::string_view>{};
    for_each_word(of_family::lines().at("*").keys, [&](std::string_view word) {
        // A key with a value is without effect if it has this value.
        const auto [name, value] = name_and_value(word);
        if (value.empty() || (given_.contains(name) && given_[name] == value_of(value)))
            ignored.push_back(name);
    });
    for (const auto& [name, value] : given_.items())
        if (const auto last = name.substr(name.rfind('.') + 1);
            !values().contains(name) && !value.is_null() && !std::ranges::binary_search(ignored, last))
            found.push_back(name);
    return found;
}

}  // namespace rankmesh::plan::of_read
