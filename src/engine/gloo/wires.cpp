// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/wires.hpp"

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/address.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

namespace rankmesh::detail {

Wires::Wires(std::shared_ptr<Network> network, int position, int size)
    : ::gloo::Context(position, size), network_(std::move(network)) {
    setTimeout(without_end);
    device_ = network_->device();
    transportContext_ = device_->createContext(position, size);
    transportContext_->setTimeout(without_end);
    for (int i = 0; i < size; ++i)
        if (i != position) transportContext_->createPair(i);
}

Wires::~Wires() {
    const auto hurry = Network::Hurry(network_);
    transportContext_ = nullptr;
    device_ = nullptr;
}

std::string Wires::address_for(int position) const {
    // Gloo's own form is 136 bytes, most of them zero.
    const auto whole =
        ::gloo::transport::tcp::Address(transportContext_->getPair(position)->address().bytes());
    const auto& socket = whole.getSockaddr();
    const auto bytes = socket.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    return std::string(reinterpret_cast<const char*>(&socket), bytes);
}

void Wires::connect(int position, const std::string& address) {
    const auto hurry = Network::Hurry(network_);
    auto socket = sockaddr_storage{};
    std::memcpy(&socket, address.data(), std::min(address.size(), sizeof socket));
    transportContext_->getPair(position)->connect(::gloo::transport::tcp::Address(socket).bytes());
}

void Wires::cut() noexcept {
    // The one way that Gloo offers to end what waits: a wait whose time is over breaks its whole context.
    const auto hurry = Network::Hurry(network_);
    try {
        char nothing = 0;
        const auto probe = createUnboundBuffer(&nothing, sizeof nothing);
        probe->waitRecv(std::chrono::milliseconds(0));
    } catch (const std::exception&) {
    }
}

}  // namespace rankmesh::detail
