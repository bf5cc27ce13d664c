// SPDX-License-Identifier: Apache-2.0
#include "engine/accept_connection.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "engine/shortage.hpp"

namespace rankmesh::detail {

int accept_connection(int listening) {
    const auto made = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made >= 0 || !is_shortage(errno)) return made;
    // Linux takes a descriptor before it looks whether somebody has called.
    const auto shortage = errno;
    auto called = pollfd{.fd = listening, .events = POLLIN, .revents = 0};
    errno = ::poll(&called, 1, 0) > 0 ? shortage : EAGAIN;
    return -1;
}

}  // namespace rankmesh::detail
