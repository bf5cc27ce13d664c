// SPDX-License-Identifier: Apache-2.0
#include "cluster/names.hpp"

#include <charconv>
#include <optional>
#include <unordered_set>
#include <utility>

#include <rankmesh/core/name.hpp>

namespace rankmesh::detail {

namespace {

constexpr auto most_digits = std::size_t{18};  // of a number in a name, because it must fit in 64 bits

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::int64_t value_of(std::string_view digits) {
    auto value = std::int64_t{0};
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
}

/// Returns the number padded with zeros to `width` digits.
std::string padded(std::int64_t number, std::size_t width) {
    auto digits = std::to_string(number);
    if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
    return digits;
}

/// Returns the digits at the end of a name.
std::string_view digits_at_end(std::string_view name) {
    auto begin = name.size();
    while (begin > 0 && is_digit(name[begin - 1])) --begin;
    return name.substr(begin);
}

/// `a01-a31`: the first and the last name.
using Ends = std::pair<std::string_view, std::string_view>;

/// Returns the ends of a range: two names that differ only in the number at their end.
std::optional<Ends> ends_of(std::string_view text) {
    for (auto dash = text.find('-'); dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
        const auto first = text.substr(0, dash);
        const auto last = text.substr(dash + 1);
        const auto low = digits_at_end(first);
        const auto high = digits_at_end(last);
        if (low.empty() || high.empty() || low.size() > most_digits || high.size() > most_digits) continue;
        if (first.substr(0, first.size() - low.size()) == last.substr(0, last.size() - high.size()))
            return Ends{first, last};
    }
    return std::nullopt;
}

/// Reads one list. Each method reads the part that it is named after.
class ListReader {
public:
    ListReader(std::string_view list, std::string_view what, int most)
        : list_(list), what_(what), most_(static_cast<std::size_t>(most)) {}

    std::vector<std::string> read() {
        while (true) {
            blanks();
            item();
            blanks();
            if (at_ == list_.size()) return std::move(names_);
            if (list_[at_] != ',') fail(cat("have the character ", quoted_at(at_)));
            ++at_;
        }
    }

private:
    [[noreturn]] void fail(std::string_view why) const {
        throw UsageError(cat("the names ", in_quotes(list_), " of ", what_, " ", why,
                             "; names are letters, digits, '_', '-' or '.', and ranges a01-a31 or a[01-31]"));
    }
    [[noreturn]] void too_many(std::string_view item) const {
        throw UsageError(
            cat("the names of ", what_, " with ", in_quotes(item), " are more than ", most_, ", the limit"));
    }
    std::string quoted_at(std::size_t at) const {
        return cat(in_quotes(first_character(list_.substr(at))), " at character ", at + 1);
    }
    char peek() const { return at_ < list_.size() ? list_[at_] : '\0'; }
    void blanks() {
        while (peek() == ' ' || peek() == '\t' || peek() == '\n') ++at_;
    }

    /// A name, a range, or a name with brackets.
    void item() {
        const auto begin = at_;
        auto all = std::vector<std::string>{""};
        auto has_brackets = false;
        while (is_name_character(peek()) || peek() == '[') {
            if (peek() == '[') {
                has_brackets = true;
                ++at_;
                check_length(all.front().size(), Cluster::longest_name);
                all = each_with_each(all, numbers(begin, all.size()));
            } else {
                const auto from = at_;
                while (is_name_character(peek())) ++at_;
                const auto letters = list_.substr(from, at_ - from);
                check_length(all.front().size() + letters.size(), 2 * Cluster::longest_name + 1);
                for (auto& name : all) name += letters;
            }
        }
        if (at_ == begin)
            fail(at_ == list_.size() || peek() == ',' ? "have an empty name"
                                                      : cat("have the character ", quoted_at(at_)));
        const auto text = list_.substr(begin, at_ - begin);
        if (!has_brackets)
            if (const auto ends = ends_of(text)) {
                const auto low = digits_at_end(ends->first);
                const auto prefix = std::string(ends->first.substr(0, ends->first.size() - low.size()));
                all.clear();
                range(text, low, digits_at_end(ends->second), 1,
                      [&](std::string number) { all.push_back(prefix + number); });
            }
        if (all.size() > most_ - names_.size()) too_many(text);
        for (const auto& name : all) check_length(name.size(), Cluster::longest_name);
        std::ranges::move(all, std::back_inserter(names_));
    }

    void check_length(std::size_t length, std::size_t most) const {
        if (length > most)
            fail(cat("have a name of ", length, " characters, more than ", Cluster::longest_name));
    }

    /// Calls `add` with each number of a range; each number makes `times` names.
    template <class Add>
    void range(std::string_view text, std::string_view low, std::string_view high, std::size_t times,
               const Add& add) const {
        const auto first = value_of(low);
        const auto last = value_of(high);
        if (last < first)
            fail(cat("have the range ", in_quotes(text), ", which counts down from ", first, " to ", last));
        // Slurm pads to the digits of the first number, so [08-9] is 08 and 09.
        if (high.size() > low.size() && padded(last, low.size()) != high)
            fail(cat("have the range ", in_quotes(text), ", but its ends have different numbers of digits"));
        if (static_cast<std::uint64_t>(last - first) >= most_ / times) too_many(text);
        for (auto number = first; number <= last; ++number) add(padded(number, low.size()));
    }

    /// Reads the content of brackets, `01-31,40]`. Each number makes `times` names of the item from `begin`
    /// on.
    std::vector<std::string> numbers(std::size_t begin, std::size_t times) {
        auto all = std::vector<std::string>{};
        while (true) {
            const auto from = at_;
            const auto low = digits();
            auto high = low;
            if (peek() == '-') {
                ++at_;
                high = digits();
            }
            const auto text = list_.substr(from, at_ - from);
            range(text, low, high, times, [&](std::string number) { all.push_back(std::move(number)); });
            if (all.size() > most_ / times) too_many(list_.substr(begin, at_ - begin));
            if (peek() == ']') break;
            if (peek() != ',')
                fail(at_ == list_.size()
                         ? "have '[' without ']'"
                         : cat("have the character ", quoted_at(at_), " between '[' and ']'"));
            ++at_;
        }
        ++at_;
        return all;
    }

    std::string_view digits() {
        const auto begin = at_;
        while (is_digit(peek())) ++at_;
        if (at_ == begin)
            fail(at_ == list_.size()
                     ? "have '[' without ']'"
                     : cat("have the character ", quoted_at(at_), ", where a number is missing"));
        if (at_ - begin > most_digits)
            fail(cat("have a number of ", at_ - begin, " digits, more than ", most_digits));
        return list_.substr(begin, at_ - begin);
    }

    static std::vector<std::string> each_with_each(const std::vector<std::string>& heads,
                                                   const std::vector<std::string>& tails) {
        auto all = std::vector<std::string>{};
        all.reserve(heads.size() * tails.size());
        for (const auto& head : heads)
            for (const auto& tail : tails) all.push_back(head + tail);
        return all;
    }

    std::string_view list_;
    std::string_view what_;
    std::size_t most_;
    std::size_t at_ = 0;
    std::vector<std::string> names_;
};

/// A name, split at its last number. `digits` is empty if a range could not count the number.
struct Numbered {
    explicit Numbered(std::string_view name) : before(name) {
        auto end = name.size();
        while (end > 0 && !is_digit(name[end - 1])) --end;
        const auto found = digits_at_end(name.substr(0, end));
        if (found.empty() || found.size() > most_digits) return;
        before = name.substr(0, end - found.size());
        digits = found;
        after = name.substr(end);
    }
    bool is_followed_by(const Numbered& next, std::int64_t by) const {
        if (digits.empty() || before != next.before || after != next.after) return false;
        return padded(value_of(digits) + by, digits.size()) == next.digits;
    }

    std::string_view before;
    std::string_view digits = {};
    std::string_view after = {};
};

/// Returns consecutive names as one item.
std::string item_of(std::string_view first, std::string_view last) {
    const auto numbered = Numbered(first);
    if (first == last) {
        if (!ends_of(first)) return std::string(first);
        return cat(numbered.before, "[", numbered.digits, "]");  // otherwise it would be read as a range
    }
    // Use brackets if a dash inside a name makes the other form ambiguous.
    if (numbered.after.empty() && numbered.before.find('-') == std::string_view::npos)
        return cat(first, "-", last);
    return cat(numbered.before, "[", numbered.digits, "-", Numbered(last).digits, "]", numbered.after);
}

}  // namespace

std::vector<std::string> expanded(std::string_view list, std::string_view what, int most) {
    return ListReader(list, what, most).read();
}

std::string folded(const std::vector<std::string_view>& names) {
    auto out = std::string{};
    for (std::size_t begin = 0; begin < names.size();) {
        const auto first = Numbered(names[begin]);
        auto end = begin + 1;
        while (end < names.size() &&
               first.is_followed_by(Numbered(names[end]), static_cast<std::int64_t>(end - begin)))
            ++end;
        if (!out.empty()) out += ',';
        out += item_of(names[begin], names[end - 1]);
        begin = end;
    }
    return out;
}

void check_units(const Cluster::Level& level) {
    if (level.units.size() > static_cast<std::size_t>(Cluster::most_names))
        throw UsageError(cat("level '", level.name, "' lists ", level.units.size(),
                             " units by name; at most ", Cluster::most_names, " are possible"));
    auto seen = std::unordered_set<std::string_view>{};
    seen.reserve(level.units.size());
    for (const auto& [name, count] : level.units) {
        if (name.empty() || name.size() > Cluster::longest_name ||
            !std::ranges::all_of(name, [](char c) { return is_name_character(c); }))
            throw UsageError(cat("level '", level.name, "' has a unit named ", in_quotes(name),
                                 "; names are 1 to ", Cluster::longest_name,
                                 " letters, digits, '_', '-' or '.'"));
        if (!seen.insert(name).second)
            throw UsageError(
                cat("level '", level.name, "' lists ", in_quotes(name), " twice; list every unit once"));
        if (count < 1)
            throw UsageError(cat("level '", level.name, "' says that ", in_quotes(name), " holds ", count,
                                 " units; it must hold 1 or more"));
    }
}

}  // namespace rankmesh::detail
