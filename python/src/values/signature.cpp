// SPDX-License-Identifier: Apache-2.0
#include "values/signature.hpp"

#include <stdexcept>

#include <nanobind/eval.h>

namespace rankmesh::python {

namespace {

/// Returns what stands between the parentheses of a signature. Commas outside of brackets and quotes separate
/// it.
std::vector<std::string> listed_in(const std::string& signature) {
    auto texts = std::vector<std::string>(1);
    auto depth = 0;
    auto is_quoted = false;
    for (auto i = signature.find('(') + 1; depth >= 0; ++i) {
        const auto c = signature.at(i);
        if (c == '\'') is_quoted = !is_quoted;
        if (!is_quoted) depth += (c == '(' || c == '[') - (c == ')' || c == ']');
        if (c == ',' && depth == 0 && !is_quoted)
            texts.emplace_back();
        else if (depth >= 0 && (c != ' ' || !texts.back().empty()))
            texts.back() += c;
    }
    return texts;
}

nb::object value_of(const std::string& expression) {
    if (expression == "None" || expression == "...") return nb::none();
    return nb::eval(nb::str(expression.c_str()), nb::dict());
}

}  // namespace

Signature::Signature(std::string text, std::size_t count, std::size_t positional) : text_(std::move(text)) {
    if (count == 0) return;
    auto before_star = count;
    for (const auto& each : listed_in(text_)) {
        if (each == "self") continue;
        if (each == "*") {
            before_star = parameters_.size();
        } else if (each == "/") {
            for (auto& parameter : parameters_) parameter.name.clear();
        } else {
            const auto equals = each.find(" = ");
            parameters_.push_back({each.substr(0, each.find(':')), nb::object()});
            if (equals != std::string::npos) parameters_.back().otherwise = value_of(each.substr(equals + 3));
        }
    }
    if (parameters_.size() != count || before_star != positional)
        throw std::logic_error(detail::cat("'", text_, "' is not of ", count, " parameters, ", positional,
                                           " of them before '*'"));
}

}  // namespace rankmesh::python
