// SPDX-License-Identifier: Apache-2.0
#include "engine/channel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include <rankmesh/core/text.hpp>

#include "engine/combine.hpp"
#include "engine/roles.hpp"
#include "engine/sparse.hpp"

namespace rankmesh::detail {

constexpr auto most_named = std::size_t{8};  // ranks with their coordinates in one text

std::string elements_text(std::size_t count, DType dtype, std::size_t unit) {
    if (unit == 1) return cat(count, " ", to_string(dtype));
    const auto elements = count / unit;
    if (dtype != DType::byte) return cat(elements, " complex ", to_string(dtype));
    return cat(elements, elements == 1 ? " element of " : " elements of ", unit, " bytes");
}

std::string tag_text(int tag, int other) {
    if (tag >= first_sparse_tag) return " of sparse_all_to_all";
    return tag == 0 && other == 0 ? "" : cat(" with tag ", tag);
}

std::string tag_text(int tag) { return tag_text(tag, 0); }

std::string list_text(std::uint32_t list) {
    constexpr auto digits = "0123456789abcdef";
    auto text = std::string{};
    for (auto rest = list; rest > 0; rest /= 16) text.insert(0, 1, digits[rest % 16]);
    return text.empty() ? text : ", a list of layout " + text;
}

std::vector<int> first_ranks(int size) {
    auto ranks = std::vector<int>(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

bool contains(const std::vector<int>& ranks, int rank) { return position_of(ranks, rank) >= 0; }

int position_of(const std::vector<int>& ranks, int rank) {
    const auto found = std::ranges::find(ranks, rank);
    return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

std::string to_string(const Call& call, const Ranks* ranks) {
    const auto& operation = traits(call.operation);
    const auto rank_text = [&](int group_rank) {
        const auto is_other = ranks && operation.argument != Argument::distance &&
                              group_rank < ranks->size() && (*ranks)[group_rank] != group_rank;
        return is_other ? cat(group_rank, " (world rank ", (*ranks)[group_rank], ")") : cat(group_rank);
    };
    auto text = std::string(to_string(call.operation));
    if (operation.has_in() || operation.has_out())
        append(text, cat(" of ", elements_text(common_length(call), call.dtype, call.unit)));
    if (operation.reduces) append(text, cat(" by ", to_string(call.reduction)));
    if (call.is_from_any())
        append(text, " from any rank");
    else if (operation.argument != Argument::none)
        append(text, cat(" ", preposition(call.operation), " ", rank_text(call.argument)));
    if (operation.argument == Argument::distance && call.edge == Edge::open) append(text, " with open edges");
    if (call.operation == Operation::send_recv && call.source >= 0)
        append(text, cat(" and ", call.out_count / call.unit, " from ", rank_text(call.source)));
    return operation.argument == Argument::peer ? text + tag_text(call.tag) : text;
}

std::string to_string(const Call& call) { return to_string(call, nullptr); }

std::vector<int> Ranks::list() const {
    auto list = std::vector<int>(static_cast<std::size_t>(size()));
    for (int i = 0; i < size(); ++i) list[static_cast<std::size_t>(i)] = (*this)[i];
    return list;
}

std::string to_string(const Ranks& ranks) {
    return ranks.placed ? ranks_to_string(ranks.list()) : to_string(ranks.group);
}

std::string ranks_text(const std::vector<int>& ranks) {
    return ranks.size() == 1 ? cat("rank ", ranks.front()) : cat("ranks ", ranks_to_string(ranks));
}

std::string with_coordinates(const std::vector<int>& ranks, const Mesh& mesh,
                             const std::vector<int>* placed) {
    if (ranks.empty()) return ranks_text(ranks);
    const auto more = ranks.size() - std::min(ranks.size(), most_named);
    auto text = more > 0 ? cat(ranks_text(ranks), ": ") : std::string(ranks.size() == 1 ? "rank " : "ranks ");
    for (std::size_t i = 0; i < ranks.size() - more; ++i) {
        const auto position = placed ? position_of(*placed, ranks[i]) : ranks[i];
        append(text, cat(i > 0 ? ", " : "", ranks[i]));
        if (position >= 0 && mesh.contains(position))
            append(text, cat(" [", to_string(mesh.coord(position)), "]"));
    }
    return more > 0 ? cat(text, " and ", more, " more") : text;
}

std::string Label::text() const {
    return name.empty() ? cat("'", axes, "' of mesh ", mesh) : cat("'", axes, "' of mesh '", name, "'");
}

std::string Label::named(const std::vector<int>& ranks) const {
    const auto nearly_all =
        ranks.size() > most_named && static_cast<int>(ranks.size()) + 1 >= this->ranks.size();
    if (member.empty() || nearly_all) return ranks_text(ranks);
    return with_coordinates(ranks, Mesh::parse(mesh), placed.get());
}

std::string Label::unusable(const std::vector<int>& lost) const {
    return cat(text_with_group(), lost.empty() ? "," : cat(", has lost ", named(lost), " and"),
               " cannot be used any more");
}

void Channel::throw_not_idle(const Label& label) const {
    const auto now = state();
    if (now == State::failed) std::rethrow_exception(failure_);
    if (now == State::foreign)
        throw UsageError(cat(label.text_with_group(),
                             ", belongs to the process that this one was forked off; make a world of its own "
                             "after the fork"));
    if (now == State::suspended)
        throw UsageError(cat(label.text_with_group(), ", is suspended; its ranks call resume first"));
    if (now == State::collecting && collector_ == std::this_thread::get_id())
        throw UsageError(
            cat("a batch on ", label.text(),
                " is being collected; inside it call send, recv and send_recv, and nothing else on "
                "its channel"));
    throw UsageError(cat(
        "two threads use ", label.text(),
        " at once; one thread at a time may, declare another channel with .separate(\"name\") to overlap"));
}

void Channel::begin_batch(const Label& label) {
    if (state() != State::idle) throw_not_idle(label);
    batch_.clear();
    strided_.clear();
    collector_ = std::this_thread::get_id();
    state_.store(State::collecting, std::memory_order_release);
}

void Channel::add_to_batch(const Call& call, const Label& label) {
    if (collector_ != std::this_thread::get_id() || !is_point_to_point(call.operation)) throw_not_idle(label);
    batch_.push_back(call);
}

void Channel::add_to_batch(const StridedCall& call, const Label& label) {
    add_to_batch(static_cast<const Call&>(call), label);
    strided_.emplace_back(batch_.size() - 1, call);
}

std::vector<Call> Channel::end_batch() {
    state_.store(State::idle, std::memory_order_release);
    return std::exchange(batch_, {});
}

Staging Channel::staging(std::size_t bytes) {
    auto own = std::exchange(staging_, {});
    if (own.bytes >= bytes) return own;
    own.data = nullptr;  // before there are two
    return {std::make_unique_for_overwrite<char[]>(bytes), bytes};
}

void Alone::run(const Call& call, const Label&, Duration) {
    // With open edges this rank has no sender, unless the distance is 0.
    if (call.operation == Operation::shift && call.edge == Edge::open && call.argument != 0) return;
    if (call.operation == Operation::send_recv && call.in_count != call.out_count)
        throw UsageError(cat("a send_recv of ", call.in_count, " elements to oneself and ", call.out_count,
                             " from oneself; both must be equal"));
    if (call.operation == Operation::exclusive_scan) return fill_with_nothing(call);
    if (call.out != call.in && call.out_bytes() > 0) std::memcpy(call.out, call.in, call.out_bytes());
    if (!reduces(call.operation)) return;
    make_logical(call);
    if (needs_all(call.reduction))  // which may change a NaN
        combine(call, std::array<const void*, 1>{call.in}, call.out, call.out_count);
}

std::uint64_t Alone::start(std::span<const Call> calls, const Label& label) {
    for (const auto& call : calls) run(call, label, {});
    return 0;
}

}  // namespace rankmesh::detail
