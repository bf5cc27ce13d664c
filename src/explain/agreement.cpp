// SPDX-License-Identifier: Apache-2.0
#include "explain/agreement.hpp"

#include <algorithm>

#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/detail/operation.hpp>

namespace rankmesh::detail::explaining {

namespace {

using Sizes = std::vector<std::vector<std::int64_t>>;

/// The buffers of an operation whose sizes are equal on all members. Covers names of rankmesh and PyTorch.
enum class Same : std::uint8_t { both, in, out, either, none };

struct Rule {
    std::string_view operation;
    Same same;
    bool has_root = false;
};

// PyTorch's names. Operations that are neither here nor rankmesh's have the same sizes in and out on all
// members.
constexpr Rule rules_of_torch[] = {{"all_reduce_barrier", Same::none},
                                   {"split", Same::none},
                                   {"new_window", Same::none},
                                   {"coalesced", Same::none},
                                   {"a call without an entry", Same::none},
                                   {"_broadcast_oop", Same::either, true},
                                   {"_reduce_oop", Same::in, true},
                                   {"reduce_scatter_v", Same::none},
                                   {"all_to_all_v_single", Same::none},
                                   {"all_to_all_single", Same::none},
                                   {"alltoall_base", Same::none}};

/// The row of rankmesh's operation of that name; null where it is PyTorch's.
const OperationRow* row_of(const RecordedOperation& call) {
    const auto* known = std::ranges::find(operations, call.operation, &OperationRow::name);
    return known == operations.end() ? nullptr : known;
}

Same same_in(const Traits& operation) {
    if (operation.counts || (!operation.has_in() && !operation.has_out())) return Same::none;
    if (operation.writes == Users::others) return Same::either;
    if (operation.writes == Users::root) return Same::in;
    return operation.reads == Users::root ? Same::out : Same::both;
}

Rule rule_of(const RecordedOperation& call) {
    const auto known = std::ranges::find(rules_of_torch, call.operation, &Rule::operation);
    if (known != std::ranges::end(rules_of_torch)) return *known;
    // PyTorch's all_to_all takes lists of any sizes and does not record that they are uneven; rankmesh's has
    // one size.
    const auto is_uneven = call.operation == "all_to_all" && call.input_sizes.size() != 1;
    const auto* row = row_of(call);
    if (is_uneven || !row) return {call.operation, is_uneven ? Same::none : Same::both};
    const auto argument = row->traits.argument;
    return {call.operation, same_in(row->traits),
            argument == Argument::root || argument == Argument::distance};
}

std::int64_t elements(const std::vector<std::int64_t>& sizes) {
    auto product = std::uint64_t{1};
    for (const auto size : sizes) product *= static_cast<std::uint64_t>(size);
    return static_cast<std::int64_t>(product);
}

std::int64_t elements(const Sizes& sizes) {
    auto sum = std::uint64_t{0};
    for (const auto& one : sizes) sum += static_cast<std::uint64_t>(elements(one));
    return static_cast<std::int64_t>(sum);
}

std::string listed_elements(const Sizes& sizes) {
    auto text = std::string{};
    for (const auto& one : sizes) text += cat(text.empty() ? "" : "+", elements(one));
    return text;
}

std::string types(const std::vector<std::string>& all) {
    auto different = all;
    std::ranges::sort(different);
    const auto end = std::ranges::unique(different).begin();
    auto text = std::string{};
    for (auto type = different.begin(); type != end; ++type) text += (text.empty() ? "" : "+") + *type;
    return text;
}

}  // namespace

Agreement agreement_of(const RecordedOperation& call) {
    const auto rule = rule_of(call);
    auto result = Agreement{.operation = call.operation,
                            .reduction = call.reduction,
                            .argument = rule.has_root && call.argument ? std::to_string(*call.argument) : "",
                            .has_open_edges = call.has_open_edges};
    const auto in = listed_elements(call.input_sizes);
    const auto out = listed_elements(call.output_sizes);
    const auto has_in = elements(call.input_sizes) != 0;
    if (rule.same == Same::none) return result;
    const auto is_out = rule.same == Same::out || (rule.same == Same::either && !has_in);
    result.count = rule.same == Same::both && in != out ? cat(in, " in and ", out, " out")
                   : is_out                             ? out
                                                        : in;
    const auto use_in =
        rule.same != Same::out && !call.input_dtypes.empty() && (has_in || rule.same == Same::in);
    result.dtype = types(use_in || call.output_dtypes.empty() ? call.input_dtypes : call.output_dtypes);
    return result;
}

bool ends_early(const RecordedOperation& call) { return rule_of(call).has_root; }

std::vector<std::string> differences(const Agreement& a, const Agreement& b) {
    if (a.operation != b.operation) return {"the operation"};
    auto all = std::vector<std::string>{};
    if (a.dtype != b.dtype) all.emplace_back("the type");
    if (a.count != b.count) all.emplace_back("the number of elements");
    if (a.reduction != b.reduction) all.emplace_back("the reduction");
    if (a.argument != b.argument) all.emplace_back(a.operation == "shift" ? "the distance" : "the root");
    if (a.has_open_edges != b.has_open_edges) all.emplace_back("the edge");
    return all;
}

bool is_from_any(const RecordedOperation& call) {
    return !call.argument && (call.operation == "recv" || call.operation == "probe");
}

std::string words_of(const RecordedOperation& call) {
    const auto rule = rule_of(call);
    const auto& operation = call.operation;
    auto text = operation;
    const auto receives = operation == "recv" || rule.same == Same::out ||
                          (rule.same == Same::either && elements(call.input_sizes) == 0);
    const auto& sizes = receives ? call.output_sizes : call.input_sizes;
    const auto& dtypes = receives && !call.output_dtypes.empty() ? call.output_dtypes : call.input_dtypes;
    const auto has_sizes = !call.input_sizes.empty() || !call.output_sizes.empty() || !dtypes.empty();
    if (rule.same != Same::none ? has_sizes : !sizes.empty()) {
        text += cat(" of ", elements(sizes));
        if (sizes.size() > 1) text += cat(" in ", sizes.size(), " buffers");
        if (!dtypes.empty()) text += " " + types(dtypes);
    }
    if (!call.reduction.empty()) text += " by " + call.reduction;
    const auto* row = row_of(call);
    if (call.argument && row && !row->preposition.empty())
        text +=
            cat(" ", row->preposition, " ", *call.argument, call.has_open_edges ? " with open edges" : "");
    if (is_from_any(call)) text += " from any rank";
    if (call.source) text += cat(" and from ", *call.source);
    return text;
}

std::int64_t elements_sent(const RecordedOperation& call) { return elements(call.input_sizes); }
std::int64_t elements_received(const RecordedOperation& call) { return elements(call.output_sizes); }

}  // namespace rankmesh::detail::explaining
