// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <deque>
#include <utility>
#include <variant>

#include <rankmesh/core/detail/quote.hpp>

#include "explain/read/fields.hpp"

namespace rankmesh::of_record {

namespace {

/// The most values per byte of a pickle; a value that is referenced twice is copied.
constexpr auto most_values_a_byte = std::size_t{16};

/// The stack of each call, which is most of a dump.
constexpr std::string_view unread = "frames";

/// The instructions that name code, or run it.
struct Refused {
    unsigned char code;
    std::string_view name;
};
constexpr Refused refused[] = {{'c', "GLOBAL"},    {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},
                               {'b', "BUILD"},     {'i', "INST"},          {'o', "OBJ"},
                               {0x81, "NEWOBJ"},   {0x92, "NEWOBJ_EX"},    {0x82, "EXT1"},
                               {0x83, "EXT2"},     {0x84, "EXT4"},         {'P', "PERSID"},
                               {'Q', "BINPERSID"}, {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"}};

class Machine {
public:
    explicit Machine(std::string_view bytes) : bytes_(bytes) {}

    Json run() {
        while (!step()) {
        }
        if (stack_.size() != 1 || !marks_.empty()) fail("ends with values left over");
        left_ = most_values_a_byte * (bytes_.size() + 1);
        return json(stack_.back(), 0);
    }

private:
    struct Node;
    using List = std::vector<Node*>;
    using Dict = std::vector<std::pair<Node*, Node*>>;
    struct Node {
        std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Dict> value;
    };

    [[noreturn]] void fail(std::string_view what) const {
        throw UsageError(cat("is a pickle that ", what, ", at byte ", at_));
    }

    unsigned char byte() {
        if (at_ == bytes_.size()) fail("is cut off");
        return static_cast<unsigned char>(bytes_[at_++]);
    }
    std::uint64_t number(int size) {
        auto value = std::uint64_t{0};
        for (int i = 0; i < size; ++i) value |= std::uint64_t{byte()} << (8 * i);
        return value;
    }
    std::string text(std::uint64_t size) {
        if (size > bytes_.size() - at_) fail("is cut off");
        const auto text = bytes_.substr(at_, size);
        at_ += size;
        for (auto rest = text; !rest.empty(); rest.remove_prefix(detail::character_size(rest)))
            if (detail::character_size(rest) == 0) fail("holds a text that is not UTF-8");
        return std::string(text);
    }

    template <class Value>
    void push(Value value) {
        stack_.push_back(&nodes_.emplace_back(Node{std::move(value)}));
    }
    Node* pop() {
        if (stack_.size() == floor()) fail("takes a value where there is none");
        auto* node = stack_.back();
        stack_.pop_back();
        return node;
    }
    std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
    /// Removes the last mark and returns the values above it.
    List pop_mark() {
        if (marks_.empty()) fail("takes values where there are none");
        const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        auto values = List(from, stack_.end());
        stack_.erase(from, stack_.end());
        marks_.pop_back();
        return values;
    }
    template <class Kind>
    Kind& top() {
        if (stack_.size() == floor()) fail("takes a value where there is none");
        auto* value = std::get_if<Kind>(&stack_.back()->value);
        if (!value) fail("puts a value into what is no list or dictionary");
        return *value;
    }
    Dict pairs(const List& values) {
        if (values.size() % 2 != 0) fail("has a key without a value");
        auto dict = Dict{};
        for (std::size_t i = 0; i < values.size(); i += 2) dict.emplace_back(values[i], values[i + 1]);
        return dict;
    }
    void remember(std::uint64_t as) {
        if (stack_.size() == floor()) fail("keeps a value where there is none");
        if (as > bytes_.size()) fail("keeps more values than it has bytes");
        if (as >= memo_.size()) memo_.resize(as + 1);
        memo_[as] = stack_.back();
    }
    void recall(std::uint64_t as) {
        if (as >= memo_.size() || !memo_[as]) fail("names a value that it does not have");
        stack_.push_back(memo_[as]);
    }
    void tuple(int size) {
        auto values = List(static_cast<std::size_t>(size));
        for (auto value = values.rbegin(); value != values.rend(); ++value) *value = pop();
        push(std::move(values));
    }

    /// Runs one instruction. Returns true for the last one.
    bool step() {
        const auto code = byte();
        for (const auto& one : refused)
            if (code == one.code)
                fail(cat("holds the instruction ", one.name,
                         ", which names or runs code; only plain data is read, and nothing was executed"));
        if (code != '.') execute(code);
        return code == '.';
    }
    void execute(unsigned char code) {
        switch (code) {
            case 0x80:  // PROTO
                if (const auto protocol = byte(); protocol < 2 || protocol > 5)
                    fail(cat("has protocol ", int{protocol}, "; 2 to 5 are read"));
                return;
            case 0x95:  // FRAME
                number(8);
                return;
            case '(':
                return marks_.push_back(stack_.size());
            case '0':  // POP
                if (stack_.size() == floor() && !marks_.empty())
                    marks_.pop_back();
                else
                    pop();
                return;
            case '1':  // POP_MARK
                pop_mark();
                return;
            case '2':  // DUP
                if (stack_.size() == floor()) fail("takes a value where there is none");
                return stack_.push_back(stack_.back());
            case 'N':
                return push(nullptr);
            case 0x88:
            case 0x89:
                return push(code == 0x88);
            case 'J':  // BININT
                return push(std::int64_t{static_cast<std::int32_t>(number(4))});
            case 'K':  // BININT1
            case 'M':  // BININT2
                return push(static_cast<std::int64_t>(number(code == 'K' ? 1 : 2)));
            case 0x8a: {  // LONG1: two's complement of any length
                const auto size = byte();
                if (size > 8) fail("holds a number of more than 64 bits");
                auto value = number(size);
                if (size > 0 && size < 8 && (value >> (8 * size - 1) & 1U) != 0)
                    value |= ~std::uint64_t{0} << (8 * size);
                return push(static_cast<std::int64_t>(value));
            }
            case 'G': {  // BINFLOAT: the high byte first
                auto bits = std::uint64_t{0};
                for (int i = 0; i < 8; ++i) bits = bits << 8 | byte();
                return push(std::bit_cast<double>(bits));
            }
            case 'X':  // BINUNICODE
            case 'T':  // BINSTRING
                return push(text(number(4)));
            case 0x8c:  // SHORT_BINUNICODE
            case 'U':   // SHORT_BINSTRING
                return push(text(number(1)));
            case 0x8d:  // BINUNICODE8
                return push(text(number(8)));
            case '}':
                return push(Dict{});
            case ']':
            case ')':
                return push(List{});
            case 'l':
            case 't':
                return push(pop_mark());
            case 'd':
                return push(pairs(pop_mark()));
            case 0x85:  // TUPLE1
            case 0x86:
            case 0x87:
                return tuple(code - 0x84);
            case 'a': {
                auto* value = pop();
                return top<List>().push_back(value);
            }
            case 'e': {
                const auto values = pop_mark();
                auto& list = top<List>();
                list.insert(list.end(), values.begin(), values.end());
                return;
            }
            case 's': {
                auto* value = pop();
                auto* key = pop();
                top<Dict>().emplace_back(key, value);
                return;
            }
            case 'u': {
                const auto added = pairs(pop_mark());
                auto& dict = top<Dict>();
                dict.insert(dict.end(), added.begin(), added.end());
                return;
            }
            case 'q':  // BINPUT
            case 'r':  // LONG_BINPUT
                return remember(number(code == 'q' ? 1 : 4));
            case 0x94:  // MEMOIZE
                return remember(memo_.size());
            case 'h':  // BINGET
            case 'j':  // LONG_BINGET
                return recall(number(code == 'h' ? 1 : 4));
            default:
                fail(cat("holds the instruction ", int{code}, ", which plain data does not need"));
        }
    }

    std::string key(const Node& node) const {
        if (const auto* text = std::get_if<std::string>(&node.value)) return *text;
        if (const auto* number = std::get_if<std::int64_t>(&node.value)) return std::to_string(*number);
        fail("has a key that is neither a text nor a whole number");
    }

    Json json(const Node* node, int level) {
        if (level > most_levels) fail(cat("nests more than ", most_levels, " levels deep"));
        if (left_-- == 0) fail("expands to far more values than it has bytes");
        if (const auto* list = std::get_if<List>(&node->value)) {
            auto out = Json::Array{};
            for (const auto* element : *list) out.push_back(json(element, level + 1));
            return Json(std::move(out));
        }
        if (const auto* dict = std::get_if<Dict>(&node->value)) {
            auto out = Json::object();
            for (const auto& [name, value] : *dict)
                if (auto text = key(*name); text != unread) out.add(std::move(text), json(value, level + 1));
            return out;
        }
        if (const auto* text = std::get_if<std::string>(&node->value)) {
            // A text is copied for each reference.
            const auto cost = text->size() / 16;
            if (cost > left_) fail("expands to far more values than it has bytes");
            left_ -= cost;
            return Json(*text);
        }
        if (const auto* flag = std::get_if<bool>(&node->value)) return Json(*flag);
        if (const auto* number = std::get_if<std::int64_t>(&node->value)) return Json(*number);
        if (const auto* number = std::get_if<double>(&node->value)) return Json(*number);
        return Json(nullptr);
    }

    std::string_view bytes_;
    std::size_t at_ = 0;
    std::size_t left_ = 0;    // remaining limit of values
    std::deque<Node> nodes_;  // owns all values, whatever references them
    std::vector<Node*> stack_;
    std::vector<std::size_t> marks_;
    std::vector<Node*> memo_;
};

}  // namespace

Json read_pickle(std::string_view bytes) { return Machine(bytes).run(); }

}  // namespace rankmesh::of_record
