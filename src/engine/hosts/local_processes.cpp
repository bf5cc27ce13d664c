// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/local_processes.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "engine/fields.hpp"

namespace rankmesh::detail {

std::string HostLine::text() const {
    return cat(rank, " ", network, " ", families, " ", process, " ", host, "\n");
}

std::vector<HostLine> read_host_lines(std::string_view text) {
    auto lines = std::vector<HostLine>{};
    for (auto fields = Fields(text, "what another rank tells of its host"); !fields.at_end();) {
        const auto rank = fields.number();
        if (std::cmp_greater(rank, std::numeric_limits<int>::max())) fields.throw_unreadable();
        auto network = fields.until(' ');
        auto families = fields.until(' ');
        auto process = fields.until(' ');
        lines.push_back({static_cast<int>(rank), std::move(network), std::move(families), std::move(process),
                         fields.line()});
    }
    std::ranges::stable_sort(lines, {}, &HostLine::rank);
    return lines;
}

namespace {

std::string hexadecimal(unsigned long long number) {
    auto digits = std::array<char, 16>{};
    return {digits.begin(), std::to_chars(digits.begin(), digits.end(), number, 16).ptr};
}

/// `effffffc`, of this process's PID namespace; "" if the system does not say.
std::string own_namespace() {
    auto text = std::array<char, 64>{};  // `pid:[4026531836]`
    const auto size = readlink("/proc/self/ns/pid", text.data(), text.size());
    if (size <= 0) return {};
    const auto link = std::string_view(text.data(), static_cast<std::size_t>(size));
    auto number = 0ULL;
    const auto* digits = link.data() + std::min(link.find('[') + 1, link.size());
    const auto [end, error] = std::from_chars(digits, link.data() + link.size(), number);
    return error == std::errc{} ? hexadecimal(number) : "";
}

/// What the system says of a process.
struct Seen {
    char state;
    int threads;
    unsigned long long start;  // in ticks since boot
};
std::optional<Seen> look_at(const std::string& process) {
    // Not by a stream: reading fails if the process ends meanwhile.
    const auto file = ::open(cat("/proc/", process, "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    auto bytes = std::array<char, 1024>{};
    const auto size = ::read(file, bytes.data(), bytes.size());
    ::close(file);
    const auto text = std::string(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    const auto name = text.rfind(')');  // which may hold anything
    if (name == std::string::npos) return std::nullopt;
    auto fields = std::istringstream(text.substr(name + 1));
    auto seen = Seen{};
    auto skipped = std::string{};
    fields >> seen.state;
    for (int i = 4; i < 20; ++i) fields >> skipped;
    fields >> seen.threads >> skipped >> seen.start;
    return fields ? std::optional(seen) : std::nullopt;
}

}  // namespace

std::string id_of_this_process() {
    const auto space = own_namespace();
    const auto seen = look_at("self");
    if (space.empty() || !seen) return "-";
    return cat(space, ".", hexadecimal(static_cast<unsigned long long>(getpid())), ".",
               hexadecimal(seen->start));
}

bool process_has_ended(const std::string& id) {
    const auto first = id.find('.');
    const auto last = id.rfind('.');
    if (first == last || id.substr(0, first) != own_namespace()) return false;
    auto process = pid_t{};
    const auto [end, error] = std::from_chars(id.data() + first + 1, id.data() + last, process, 16);
    if (error != std::errc{} || end != id.data() + last || process <= 0) return false;
    if (kill(process, 0) != 0 && errno == ESRCH) return true;
    const auto seen = look_at(cat(process));
    if (!seen) return false;
    // Of one that nobody has waited for the last thread is left.
    const auto is_over = (seen->state == 'Z' || seen->state == 'X') && seen->threads <= 1;
    return is_over || hexadecimal(seen->start) != id.substr(last + 1);
}

LocalProcesses::LocalProcesses(const std::vector<HostLine>& lines, int own_rank) {
    const auto own = std::ranges::find(lines, own_rank, &HostLine::rank);
    if (own == lines.end() || own->process == "-") return;
    const auto space = own->process.substr(0, own->process.find('.') + 1);
    for (const auto& each : lines)
        if (each.rank != own_rank && each.network == own->network && each.process.starts_with(space))
            ids_[each.rank] = each.process;
}

LocalProcesses LocalProcesses::among(const std::vector<int>& ranks) const {
    auto part = LocalProcesses();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const auto rank = static_cast<int>(i);
        if (const auto found = ids_.find(ranks[i]); found != ids_.end()) part.ids_[rank] = found->second;
        if (std::ranges::find(ended_, ranks[i]) != ended_.end()) part.ended_.push_back(rank);
    }
    return part;
}

const std::vector<int>& LocalProcesses::ended() {
    using std::chrono::milliseconds;
    const auto now = std::chrono::steady_clock::now();
    if (ids_.empty() || now < next_) return ended_;
    next_ = now + std::max(milliseconds(25), milliseconds(5) * static_cast<int>(ids_.size()));
    for (const auto& [rank, id] : ids_)
        if (std::ranges::find(ended_, rank) == ended_.end() && process_has_ended(id)) ended_.push_back(rank);
    return ended_;
}

std::vector<int> LocalProcesses::to_blame(const std::vector<int>& lost, const std::vector<int>& all) const {
    using Clock = std::chrono::steady_clock;
    const auto is_local = [&](int rank) { return ids_.contains(rank); };
    if (std::ranges::none_of(lost, is_local)) return lost;
    // Connections of a process are closed just before it has ended.
    for (const auto until = Clock::now() + std::chrono::milliseconds(100); Clock::now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
        auto blamed = std::vector<int>{};
        std::ranges::copy_if(all, std::back_inserter(blamed), [&](int rank) {
            const auto found = ids_.find(rank);
            return found != ids_.end() && process_has_ended(found->second);
        });
        if (blamed.empty()) continue;
        for (const auto rank : lost)
            if (!is_local(rank)) blamed.push_back(rank);
        std::ranges::sort(blamed);
        return blamed;
    }
    return lost;
}

}  // namespace rankmesh::detail
