// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/rank_generator.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::megatron {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::Refusal;

namespace {

struct Named {
    std::string_view name;
    int size;
};

/// In the order in which the original looks at them.
std::array<Named, 6> sizes_of(const RankGenerator::Arguments& a) {
    return {
        {{"tp", a.tp}, {"pp", a.pp}, {"dp", a.dp}, {"ep", a.ep}, {"cp", a.cp}, {"gtp_remat", a.gtp_remat}}};
}

Error lacks(std::string_view name, int size, std::string_view order) {
    return {Fault::missing, cat("The size of (", name, ") is (", size,
                                "), but you haven'tspecified the order (", order, ").")};
}

Error is_not_in(std::string_view name, std::string_view order) {
    return {Fault::unknown, cat("'", name, "' is not in the order ", order)};
}

}  // namespace

std::vector<std::string> tokens(std::string_view joined) {
    auto parts = std::vector<std::string>(1);
    for (auto c : joined) {
        if (c == '-')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

RankGenerator::RankGenerator(const Arguments& arguments)
    : arguments_(arguments), order_(arguments.order), mesh_{{"rank", 1}} {
    const auto& given = arguments.order;
    if (arguments.ep != 1 && arguments.cp != 1)
        throw Error(Fault::exclusive,
                    "Both EP and CP > 1 in not allow in one rank generator. CP is only included in default "
                    "RankGenerator, and EP only in expert RankGenerator.");
    const auto known = sizes_of(arguments);
    for (auto& c : order_)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (const auto& [name, size] : known) {
        // The text is searched, not its tokens: "gtp_remat" hides that tp is not there.
        if (order_.find(name) != std::string::npos) continue;
        if (size != 1) throw lacks(name, size, given);
        order_ += cat("-", name);
    }
    const auto names = tokens(order_);
    for (const auto& token : names) {
        const auto found = std::ranges::find(known, std::string_view(token), &Named::name);
        if (found == known.end())
            throw Error(Fault::unknown, cat("the order (", given, ") names '", token,
                                            "'; the axes are tp, pp, dp, ep, cp and gtp_remat"));
        ordered_size_.push_back(found->size);
    }
    for (const auto& [name, size] : known)
        if (size < 1)
            throw Refusal(Fault::sizes, "sizes-below-one",
                          cat("a size of ", size, " was given for ", name, "; every size is 1 or more"));
    if (arguments.rank_offset < 0)
        throw Refusal(Fault::out_of_range, "offset-below-zero",
                      cat("a rank offset of ", arguments.rank_offset, " was given; it is 0 or more"));
    for (std::size_t i = 0; i < names.size(); ++i)
        if (ordered_size_[i] != 1 && std::ranges::count(names, names[i]) > 1)
            throw Refusal(Fault::argument, "axis-twice",
                          cat("the order (", given, ") lists ", names[i], " twice; list it once"));
    // The last token is outermost. An axis of size 1 that is listed again adds nothing.
    auto axes = std::vector<Axis>{};
    for (auto i = names.size(); i-- > 0;)
        if (std::ranges::find(axes, names[i], &Axis::name) == axes.end())
            axes.push_back({names[i], ordered_size_[i]});
    mesh_ = Mesh(std::span<const Axis>(axes)).shifted(arguments.rank_offset);
    // tp alone can be missing from the order, where gtp_remat hides it.
    const auto ranks = std::int64_t{mesh_.size()} * (mesh_.find("tp") ? 1 : arguments.tp);
    if (ranks > Mesh::max_size) throw lacks("tp", arguments.tp, given);
    world_size_ = static_cast<int>(ranks);
}

std::vector<bool> RankGenerator::get_mask(std::string_view order, std::string_view token) const {
    const auto ordered = tokens(order);
    auto mask = std::vector<bool>(ordered.size());
    for (const auto& name : tokens(token)) {
        const auto found = std::ranges::find(ordered, name);
        if (found == ordered.end()) throw is_not_in(name, order);
        mask[static_cast<std::size_t>(found - ordered.begin())] = true;
    }
    return mask;
}

const Mesh& RankGenerator::mesh() const {
    if (world_size_ != mesh_.size()) throw lacks("tp", arguments_.tp, arguments_.order);
    return mesh_;
}

AxisSet RankGenerator::axes(std::string_view token) const {
    auto axes = AxisSet{};
    for (auto left = token;;) {
        const auto name = left.substr(0, left.find('-'));
        const auto axis = mesh_.find(name);
        if (!axis) throw is_not_in(name, order_);
        axes.insert(*axis);
        if (name.size() == left.size()) return axes;
        left.remove_prefix(name.size() + 1);
    }
}

Partition RankGenerator::get_ranks(std::string_view token) const {
    const auto along = axes(token);
    return mesh().partition(along);
}

std::string inject_gtp_remat_axis(std::string_view order, std::string_view after) {
    auto names = tokens(order);
    if (std::ranges::find(names, "gtp_remat") != names.end()) return std::string(order);
    auto anchor = std::ranges::find(names, after);
    if (anchor == names.end()) anchor = std::ranges::find(names, "tp");
    names.insert(anchor == names.end() ? names.begin() : anchor + 1, "gtp_remat");
    auto joined = names[0];
    for (std::size_t i = 1; i < names.size(); ++i) joined += "-" + names[i];
    return joined;
}

std::vector<int> default_embedding_ranks(std::span<const int> pp_ranks) {
    if (pp_ranks.size() < 2) return default_position_embedding_ranks(pp_ranks);
    return {pp_ranks.front(), pp_ranks.back()};
}

std::vector<int> default_position_embedding_ranks(std::span<const int> pp_ranks) {
    if (pp_ranks.empty()) throw Error(Fault::out_of_range, "a pipeline without ranks has no first one");
    return {pp_ranks.front()};
}

}  // namespace rankmesh::megatron
