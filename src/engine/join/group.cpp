// SPDX-License-Identifier: Apache-2.0
#include "engine/join/join.hpp"

#include <array>
#include <set>
#include <utility>

#include <rankmesh/core/detail/number.hpp>

#include "engine/diagnosis/attendance.hpp"
#include "engine/fields.hpp"
#include "engine/hash.hpp"
#include "engine/join/agree.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

constexpr int item_number = 0x1fff;  // beyond those of declared items
/// How long ranks that know that their lists differ wait for those that have said nothing, and for the others
/// to take back what they have said: that follows it closely.
constexpr auto silence = std::chrono::seconds(1);
constexpr auto withdrawal = std::chrono::milliseconds(100);

/// What must be the same on all ranks of a group.
std::string description_of(const NewGroup& group) {
    return cat(ranks_to_string(group.ranks), group.name.empty() ? "" : cat(" as ", group.name),
               group.settings == DeviceSettings{} ? "" : cat(" tuned to ", to_text(group.settings)));
}

/// What a rank tells another about the group that it makes.
struct GroupMessage {
    std::string description;  // "": what it told before is void, as it has given up
    std::string ranks;
    int known = 0;  // how many messages of the receiver the sender had read by then

    std::string bytes() const { return pack_texts({description, ranks, cat(known, " ")}); }
    static GroupMessage from(std::string_view bytes) {
        auto texts = unpack_texts(bytes);
        if (texts.size() != 3) Fields({}, what).throw_unreadable();
        return {std::move(texts[0]), std::move(texts[1]), static_cast<int>(Fields(texts[2], what).number())};
    }
    static constexpr auto* what = "what another rank says of a group";
};

/// One agreement on a group, on one of its ranks.
///
/// Each tells all that its list names, and hears all of them. Whoever hears of another list tells those that
/// it names as well: so all hear of it that wait for one of them, also where one list leaves others out.
class Agreement {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    Agreement(Exchange& exchange, GroupCounts& counts, const NewGroup& group, std::string phase)
        : exchange_(exchange),
          counts_(counts),
          before_(counts.sent),
          listed_(group.ranks),
          phase_(std::move(phase)),
          description_(description_of(group)),
          ranks_(ranks_to_string(group.ranks)) {
        classes_.push_back({description_, {exchange.rank()}});
        post(listed_);
    }

    /// Hears the others; the ranks that have not come until then.
    std::vector<int> collect(TimePoint until) {
        for (const auto from : std::vector(pending_)) {  // what came while another group was made
            auto& kept = counts_.deferred[from];
            while (!kept.empty() && is_pending(from)) {
                const auto bytes = std::move(kept.front());
                kept.pop_front();
                take(from, bytes);
            }
        }
        auto since = TimePoint{};
        while (!pending_.empty()) {
            auto limit = until;
            if (differs()) {
                if (since == TimePoint{}) since = std::chrono::steady_clock::now();
                const auto all_spoke =
                    std::ranges::all_of(pending_, [&](int rank) { return others_.contains(rank); });
                limit = std::min(until, since + (all_spoke ? withdrawal : silence));
            } else {
                since = {};
            }
            auto heard = std::vector<std::pair<int, std::string>>{};
            try {
                heard = exchange_.collect(phase_, pending_, limit);
            } catch (const PeerLost&) {
                if (differs()) break;  // which explains more
                give_up();
                throw;
            }
            if (heard.empty()) break;
            for (const auto& [from, bytes] : heard) take(from, bytes);
        }
        give_up();
        return pending_;
    }

    bool differs() const { return classes_.size() > 1 || !others_.empty(); }

    [[noreturn]] void throw_different() {
        auto silent = std::vector<int>{};
        for (const auto rank : pending_)
            if (!others_.contains(rank)) silent.push_back(rank);
        for (auto& [rank, description] : others_) merge(classes_, {description, {rank}});
        fold(classes_);
        const auto absent = silent.empty() ? std::string{}
                                           : cat(", and ", ranks_to_string(silent),
                                                 silent.size() == 1 ? " has" : " have", " not come yet");
        detail::throw_different(cat("the ranks ask for different groups", absent,
                                    "; all ranks of a group must list the same ranks in the same order:"),
                                classes_);
    }

private:
    bool is_pending(int rank) const { return contains(pending_, rank); }

    void send(int rank, const std::string& description) {
        ++counts_.sent[rank];
        exchange_.post(rank, GroupMessage{description, ranks_, counts_.received[rank]}.bytes());
    }
    void post(const std::vector<int>& ranks) {
        for (const auto rank : ranks) {
            if (rank == exchange_.rank() || !told_.insert(rank).second) continue;
            send(rank, description_);
            pending_.push_back(rank);
        }
    }

    /// Reads a message. How many messages of this rank its sender had read tells which group it is about.
    void take(int from, const std::string& bytes) {
        const auto message = GroupMessage::from(bytes);
        if (message.known > before_[from]) return defer(from, message, bytes);
        ++counts_.received[from];
        if (message.description == description_) {
            others_.erase(from);
            std::erase(pending_, from);
            merge(classes_, {message.description, {from}});
            return;
        }
        if (message.description.empty()) {  // it takes back what it has told
            others_.erase(from);
            return;
        }
        const auto is_of_earlier_group = message.known < before_[from];  // which this rank has given up
        if (is_of_earlier_group) return;
        others_[from] = message.description;
        post(Fields({}, GroupMessage::what).ranks(message.ranks, static_cast<std::size_t>(exchange_.size())));
    }

    /// Keeps a message of a rank that has read what this call told it, and has given up: it is of its next
    /// group.
    void defer(int from, const GroupMessage& message, const std::string& bytes) {
        counts_.deferred[from].push_back(bytes);
        others_.try_emplace(from, message.description);
        std::erase(pending_, from);
    }

    /// Those that have said nothing may come to this group later, which then is none. Where lists differ
    /// they hear so if they are on this rank's.
    void give_up() {
        for (const auto rank : pending_)
            if (!others_.contains(rank) && (!differs() || std::ranges::find(listed_, rank) == listed_.end()))
                send(rank, {});
    }

    Exchange& exchange_;
    GroupCounts& counts_;
    std::map<int, int> before_;  // how often this rank has told others before this group
    const std::vector<int>& listed_;
    const std::string phase_;
    const std::string description_;
    const std::string ranks_;
    std::set<int> told_;
    std::vector<int> pending_;           // told, and may still say something
    std::map<int, std::string> others_;  // what ranks ask for that do not ask for this group
    std::vector<PlanClass> classes_;
};

}  // namespace

std::string short_text(const std::vector<int>& ranks) {
    constexpr auto longest = std::size_t{40};
    auto text = ranks_to_string(ranks);
    return text.size() <= longest ? text : cat(counted(ranks.size(), "rank"), " from ", ranks.front());
}

void agree_on_group(Exchange& exchange, GroupCounts& counts, const NewGroup& group, const Label& label,
                    Duration timeout) {
    const auto phase = cat("making ", label.text(), ", group ", to_string(label.ranks), ",");
    auto agreement = Agreement(exchange, counts, group, phase);
    const auto missing = agreement.collect(from_now(timeout));
    if (agreement.differs()) agreement.throw_different();
    if (missing.empty()) return;
    auto arrived = group.ranks;
    std::erase_if(arrived, [&](int rank) { return std::ranges::find(missing, rank) != missing.end(); });
    auto late = missing;
    std::ranges::sort(late);
    const auto doing = [&](int rank) { return exchange.doing(rank); };
    throw timeout_error_in(phase, timeout, exchange.rank(), arrived, late, label.named(late),
                           doing(late.front()).empty() ? "" : last_seen(late, label, doing));
}

std::vector<int> of_color(std::optional<int> color, std::vector<Colored> all) {
    if (!color) return {};
    std::erase_if(all, [&](const Colored& each) { return each.color != color; });
    std::ranges::stable_sort(all, {}, &Colored::key);
    auto ranks = std::vector<int>{};
    for (const auto& each : all) ranks.push_back(each.rank);
    return ranks;
}

std::vector<Colored> gather_colors(Exchange& exchange, const Colored& own, Duration timeout) {
    // `3 -1 5 `, or `3 - 5 `: a rank, its color, and its key.
    auto texts = cat(own.rank, " ", own.color ? cat(*own.color) : "-", " ", own.key, " ");
    auto bytes = std::string{};
    auto nothing = std::array<std::int64_t, 4>{};
    try {
        exchange.max(nothing);  // which knows all ranks that are missing, not only those beneath this one
        bytes = gather(
            exchange, [&](const std::string& beneath) { append(texts, beneath); }, [&] { return texts; });
    } catch (const Timeout& expired) {
        throw timeout_error_in("split, of all ranks of the world,", timeout, exchange.rank(), expired.arrived,
                               expired.missing, ranks_text(expired.missing), expired.seen);
    }
    auto all = std::vector<Colored>{};
    for (auto fields = Fields(bytes, "what another rank splits by"); !fields.at_end();) {
        const auto number = [&](const std::string& text) {
            const auto value = number_in(text);
            if (!value) fields.throw_unreadable();
            return *value;
        };
        auto& each = all.emplace_back();
        each.rank = number(fields.until(' '));
        if (const auto color = fields.until(' '); color != "-") each.color = number(color);
        each.key = number(fields.until(' '));
    }
    std::ranges::sort(all, {}, &Colored::rank);
    return all;
}

std::shared_ptr<const Label> label_of(const NewGroup& group, const MeshEntry& mesh) {
    const auto size = static_cast<int>(group.ranks.size());
    return std::make_shared<const Label>(
        Label{.mesh = mesh.mesh.text,
              .name = mesh.mesh.name,
              .axes = group.name.empty() ? short_text(group.ranks) : group.name,
              .member = member_text(mesh),
              .ranks = {Mesh{{"ranks", size}}.group(0, "ranks"),
                        std::make_shared<const std::vector<int>>(group.ranks)},
              .placed = mesh.mesh.placed});
}

std::shared_ptr<CommunicatorState> make_group(const NewGroup& group, std::shared_ptr<const Label> label,
                                              const MeshEntry& mesh,
                                              const std::vector<MeshEntry>& mesh_entries, Joining& joining,
                                              GroupCounts& counts) {
    for (const auto& made : joining.groups)  // as it asked for it before
        if (made.label->mesh == label->mesh && made.label->name == label->name &&
            made.label->axes == label->axes && made.item.timeout == group.timeout &&
            made.item.settings == group.settings && made.label->ranks.list() == group.ranks)
            return made.state;
    auto entry = MeshEntry::GroupEntry{
        .item = {.timeout = group.timeout, .settings = group.settings},
        .label = std::move(label),
        .group_rank = position_of(group.ranks, joining.exchange.rank()),
        .number = item_number,
        // Another one at each try, since an earlier one may have left entries of its key.
        .key = cat("group ", hash(ranks_to_string(group.ranks)), " number ", counts.made[group.ranks]++),
    };
    connect_later(mesh, entry, joining, mesh_entries);
    joining.groups.push_back(entry);
    return entry.state;
}

}  // namespace rankmesh::detail
