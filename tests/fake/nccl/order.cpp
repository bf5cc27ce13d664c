// SPDX-License-Identifier: Apache-2.0
#include "fake/nccl/order.hpp"

namespace fake_nccl {
namespace {

struct Counts {
    static Counts& get() {
        static auto& counts = *new Counts();
        return counts;
    }
    std::mutex mutex;
    std::map<int, std::map<std::uint64_t, std::uint64_t>> given = {};  // by device and communicator
    std::map<std::uint64_t, std::string> names = {};
};

std::map<std::uint64_t, std::uint64_t> parsed(const std::string& order) {
    auto in = std::istringstream(order);
    auto counts = std::map<std::uint64_t, std::uint64_t>{};
    for (auto id = std::uint64_t{}, count = std::uint64_t{}; in >> id >> count;) counts[id] = count;
    return counts;
}

}  // namespace

void count_from_now(const Communicator& communicator) {
    auto& counts = Counts::get();
    const auto lock = std::lock_guard(counts.mutex);
    counts.given[communicator.device][communicator.id] = 0;
    counts.names[communicator.id] = communicator.name;
}

void count_no_more(const Communicator& communicator) {
    auto& counts = Counts::get();
    const auto lock = std::lock_guard(counts.mutex);
    counts.given[communicator.device].erase(communicator.id);
}

std::string counted(const Communicator& communicator) {
    if (setting("FAKE_ORDER", 0) == 0) return {};
    auto& counts = Counts::get();
    const auto lock = std::lock_guard(counts.mutex);
    auto& given = counts.given[communicator.device];
    auto order = std::string{};
    for (const auto& [id, count] : given)
        if (id != communicator.id) order += text(id, " ", count, " ");
    ++given[communicator.id];
    return order;
}

void compare_orders(const Communicator& communicator, const std::string& call, const std::string& mine,
                    int peer, const std::string& its) {
    const auto own = parsed(mine);
    for (const auto& [id, count] : parsed(its)) {
        const auto found = own.find(id);
        if (found == own.end() || found->second == count) continue;
        auto& counts = Counts::get();
        const auto lock = std::lock_guard(counts.mutex);
        violation(call, " on communicator ", communicator.name, ": rank ", communicator.rank,
                  " calls it after ", found->second, " collectives of communicator ", counts.names[id],
                  ", rank ", peer, " after ", count, "; different orders on two communicators can deadlock");
    }
}

}  // namespace fake_nccl
