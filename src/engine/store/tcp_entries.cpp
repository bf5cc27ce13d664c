// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_entries.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

namespace rankmesh::detail {

bool TcpEntries::keep(Wait& given) {
    if (is_complete(given)) return false;
    auto wait = std::make_unique<Wait>(std::move(given));
    auto* const key = wait.get();
    for (const auto& each : {key->names[key->next], key->names.back()}) by_name_[each].insert(key);
    by_time_.emplace(wait->until, key);
    bytes_ += bytes_of(wait->names);
    held_[wait->connection] += bytes_of(wait->names);
    waits_[wait->connection].emplace(key, std::move(wait));
    return true;
}

std::vector<TcpEntries::Wait> TcpEntries::take_completed_by(const std::string& name) {
    auto taken = std::vector<Wait>{};
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return taken;
    for (auto* wait : std::vector<Wait*>(found->second.begin(), found->second.end())) {
        unlist(name, wait);
        if (is_complete(*wait))
            taken.push_back(take(wait));
        else
            by_name_[wait->names[wait->next]].insert(wait);
    }
    return taken;
}

TcpEntries::Wait TcpEntries::take(Wait* wait) {
    for (const auto& each : {wait->names[wait->next], wait->names.back()}) unlist(each, wait);
    give_back(wait->connection, bytes_of(wait->names));
    by_time_.erase({wait->until, wait});
    const auto of_connection = waits_.find(wait->connection);
    const auto found = of_connection->second.find(wait);
    auto taken = std::move(*found->second);
    of_connection->second.erase(found);
    if (of_connection->second.empty()) waits_.erase(of_connection);
    return taken;
}

bool TcpOutbox::flush(int socket, bool& any) {
    while (!texts_.empty()) {
        auto parts = std::array<iovec, 32>{};
        auto count = std::size_t{0};
        for (const auto& [text, is_shared] : texts_) {
            const auto skipped = count == 0 ? sent_ : 0;
            parts[count++] = {const_cast<char*>(text->data()) + skipped, text->size() - skipped};
            if (count == parts.size()) break;
        }
        auto message = msghdr{};
        message.msg_iov = parts.data();
        message.msg_iovlen = count;
        const auto sent = sendmsg(socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN;
        any = true;
        sent_ += static_cast<std::size_t>(sent);
        while (!texts_.empty() && sent_ >= texts_.front().text->size()) {
            sent_ -= texts_.front().text->size();
            forget(texts_.front());
            texts_.pop_front();
        }
    }
    return true;
}

}  // namespace rankmesh::detail
