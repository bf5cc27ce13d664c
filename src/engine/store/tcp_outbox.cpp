// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_outbox.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>

namespace rankmesh::detail {

void TcpOutbox::push(Text text, bool is_shared) {
    if (!is_shared) unsent_ += text->size();
    texts_.push_back({std::move(text), is_shared});
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
