// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace rankmesh::detail {

/// The texts that wait until a connection sends them.
class TcpOutbox {
public:
    using Text = std::shared_ptr<const std::string>;

    /// `unsent` counts the bytes of the texts of all connections, but for texts shared with entries.
    explicit TcpOutbox(std::size_t& unsent) : unsent_(unsent) {}
    ~TcpOutbox() {
        for (const auto& each : texts_) forget(each);
    }
    TcpOutbox(const TcpOutbox&) = delete;
    TcpOutbox& operator=(const TcpOutbox&) = delete;

    void push(std::string text) { push(std::make_shared<const std::string>(std::move(text)), false); }
    void push(Text text, bool is_shared);
    /// Sends what the kernel takes. Returns false if the connection is broken. `any`: whether it has sent
    /// some.
    bool flush(int socket, bool& any);
    bool empty() const { return texts_.empty(); }
    std::size_t size() const { return texts_.size(); }

private:
    struct Unsent {
        Text text;
        bool is_shared = false;
    };
    void forget(const Unsent& each) {
        if (!each.is_shared) unsent_ -= each.text->size();
    }

    std::size_t& unsent_;
    std::deque<Unsent> texts_;
    std::size_t sent_ = 0;  // of the first text
};

}  // namespace rankmesh::detail
