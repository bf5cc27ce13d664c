// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/wires.hpp"

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/address.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

namespace rankmesh::detail {

/// Gloo's connections, all of whose buffers can be made to stop waiting.
///
/// Gloo itself forgets a send that is the first to find its connection broken: that would wait without end.
class Wires::Connections final : public ::gloo::transport::Context {
public:
    explicit Connections(std::shared_ptr<::gloo::transport::Context> gloo)
        : Context(gloo->rank, gloo->size), gloo_(std::move(gloo)) {
        setTimeout(without_end);
        gloo_->setTimeout(without_end);
    }

    std::unique_ptr<::gloo::transport::Pair>& getPair(int rank) override { return gloo_->getPair(rank); }
    std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override {
        return gloo_->createPair(rank);
    }
    std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                          std::size_t bytes) override {
        return std::make_unique<Buffer>(*this, gloo_->createUnboundBuffer(data, bytes));
    }
    void cut() {
        // The one way that Gloo offers: a wait whose time is over breaks its whole context.
        try {
            char nothing = 0;
            gloo_->createUnboundBuffer(&nothing, sizeof nothing)->waitRecv(std::chrono::milliseconds(0));
        } catch (const std::exception&) {
        }
        const auto lock = std::lock_guard(mutex_);
        cut_ = true;
        for (auto* each = first_; each; each = each->next) each->abort();
    }

private:
    /// One of a list, which it leaves when it goes.
    class Buffer final : public ::gloo::transport::UnboundBuffer {
    public:
        Buffer(Connections& all, std::unique_ptr<::gloo::transport::UnboundBuffer> gloo)
            : UnboundBuffer(gloo->ptr, gloo->size), gloo_(std::move(gloo)), all_(all) {
            const auto lock = std::lock_guard(all_.mutex_);
            next = all_.first_;
            if (next) next->previous = this;
            all_.first_ = this;
            if (all_.cut_) abort();
        }
        ~Buffer() override {
            const auto lock = std::lock_guard(all_.mutex_);
            (previous ? previous->next : all_.first_) = next;
            if (next) next->previous = previous;
        }

        bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
            return gloo_->waitRecv(rank, timeout) || (is_cut() && gloo_->waitRecv(rank, no_time));
        }
        bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
            return gloo_->waitSend(rank, timeout) || (is_cut() && gloo_->waitSend(rank, no_time));
        }
        void abortWaitRecv() override { gloo_->abortWaitRecv(); }
        void abortWaitSend() override { gloo_->abortWaitSend(); }
        void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
            gloo_->send(to, slot, offset, bytes);
        }
        void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
            gloo_->recv(from, slot, offset, bytes);
        }
        void recv(std::vector<int> from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
            gloo_->recv(std::move(from), slot, offset, bytes);
        }
        void abort() {
            gloo_->abortWaitRecv();
            gloo_->abortWaitSend();
        }

        Buffer* previous = nullptr;
        Buffer* next = nullptr;

    private:
        static constexpr auto no_time = std::chrono::milliseconds(0);  // throws unless it is done
        bool is_cut() const {
            const auto lock = std::lock_guard(all_.mutex_);
            return all_.cut_;
        }
        const std::unique_ptr<::gloo::transport::UnboundBuffer> gloo_;
        Connections& all_;
    };

    const std::shared_ptr<::gloo::transport::Context> gloo_;
    std::mutex mutex_;
    Buffer* first_ = nullptr;
    bool cut_ = false;
};

Wires::Wires(std::shared_ptr<Network> network, int position, int size)
    : ::gloo::Context(position, size), network_(std::move(network)) {
    setTimeout(without_end);
    device_ = network_->device();
    connections_ = std::make_shared<Connections>(device_->createContext(position, size));
    transportContext_ = connections_;
    for (int i = 0; i < size; ++i)
        if (i != position) transportContext_->createPair(i);
}

Wires::~Wires() {
    const auto hurry = Network::Hurry(network_);
    connections_ = nullptr;
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
    const auto hurry = Network::Hurry(network_);
    connections_->cut();
}

}  // namespace rankmesh::detail
