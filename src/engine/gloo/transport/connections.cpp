// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/connections.hpp"

#include <gloo/common/error.h>
#include <gloo/common/logging.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <type_traits>

#include <rankmesh/core/error.hpp>

#include "engine/system.hpp"

namespace rankmesh::detail {
namespace {

/// The pause between two looks at failures of other ranks while connections are made.
constexpr auto shortest_between_looks = std::chrono::milliseconds(10);
constexpr auto longest_between_looks = std::chrono::milliseconds(250);

/// How long a wait reads the connections itself before it sleeps; docs/design/0009-gloo.md has the
/// measurements.
constexpr auto longest_poll = std::chrono::microseconds(200);

std::string gloo_reports(const std::exception& error) {
    return cat("its process has ended, or has closed the connection; Gloo reports: ", error.what());
}

/// Takes a step towards a peer; throws Unreachable with its reason.
template <class Step>
auto step_with(int group_rank, Step&& step) {
    try {
        return step();
    } catch (const Shortage&) {
        throw;
    } catch (const ::gloo::Exception& error) {
        throw Connections::Unreachable{group_rank, gloo_reports(error)};
    } catch (const ::gloo::EnforceNotMet& error) {
        throw Connections::Unreachable{group_rank, gloo_reports(error)};
    } catch (const std::exception& error) {
        throw Connections::Unreachable{group_rank, error.what()};
    }
}

}  // namespace

/// Gloo's transport context, with a list of its buffers, so that all their waits can be ended.
///
/// Gloo itself forgets a send that is the first to find its connection broken: its wait would never end.
class Connections::Buffers final : public ::gloo::transport::Context {
public:
    Buffers(std::shared_ptr<::gloo::transport::Context> gloo, bool polls)
        : Context(gloo->rank, gloo->size), gloo_(std::move(gloo)), polls_(polls) {
        setTimeout(without_end);
        gloo_->setTimeout(without_end);
    }

    std::unique_ptr<::gloo::transport::Pair>& getPair(int rank) override { return gloo_->getPair(rank); }
    std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override {
        return gloo_->createPair(rank);
    }
    std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                          std::size_t bytes) override {
        return make(data, bytes, 0, false);
    }
    std::unique_ptr<Connections::Buffer> make(void* data, std::size_t bytes, std::uint64_t mark, bool polls) {
        return std::make_unique<Buffer>(*this, gloo_->createUnboundBuffer(data, bytes), mark, polls);
    }
    std::function<void(const std::string&)> explain = [](const std::string&) {};

    void cut() {
        // Gloo's only way to break a context: a wait that times out.
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
    /// A buffer that is in the list of its context while it lives.
    class Buffer final : public Connections::Buffer {
    public:
        Buffer(Buffers& all, std::unique_ptr<::gloo::transport::UnboundBuffer> gloo, std::uint64_t mark,
               bool polls)
            : Connections::Buffer(gloo->ptr, gloo->size),
              gloo_(std::move(gloo)),
              all_(all),
              mark_(mark),
              polls_(polls) {
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
            return explained([&] {
                poll(receives_, Connection::Event::data);
                return gloo_->waitRecv(rank, timeout) || (is_cut() && gloo_->waitRecv(rank, no_time));
            });
        }
        bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
            return explained([&] {
                poll(sends_, Connection::Event::request);
                return gloo_->waitSend(rank, timeout) || (is_cut() && gloo_->waitSend(rank, no_time));
            });
        }
        void set_polls(bool polls) override { polls_ = polls; }
        void abortWaitRecv() override { gloo_->abortWaitRecv(); }
        void abortWaitSend() override { gloo_->abortWaitSend(); }
        void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
            const auto own = sends_.add(to, marked(slot, offset, bytes));
            explained([&] { gloo_->send(to, own, offset, bytes); });
        }
        void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
            const auto own = receives_.add(from, marked(slot, offset, bytes));
            explained([&] { gloo_->recv(from, own, offset, bytes); });
        }
        void recv(std::vector<int> from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
            explained([&] { gloo_->recv(std::move(from), marked(slot, offset, bytes), offset, bytes); });
        }
        void abort() {
            gloo_->abortWaitRecv();
            gloo_->abortWaitSend();
        }

        Buffer* previous = nullptr;
        Buffer* next = nullptr;

    private:
        static constexpr auto no_time =
            std::chrono::milliseconds(0);  // throws unless the operation is complete
        bool is_cut() const {
            const auto lock = std::lock_guard(all_.mutex_);
            return all_.cut_;
        }
        /// Takes a step of a call. Where it throws, the failure behind that is found before the call lets go
        /// of its buffers: Gloo reads no further on a connection that has read half of what a buffer was for,
        /// once that is gone, and so would not read what the peer says of its failure.
        template <class Step>
        std::invoke_result_t<Step> explained(Step&& step) {
            try {
                return step();
            } catch (const std::exception& error) {
                if (mark_ != 0) all_.explain(error.what());
                throw;
            }
        }
        /// The slot by which Gloo matches this with what the peer sends or receives.
        std::uint64_t marked(std::uint64_t slot, std::size_t offset, std::size_t bytes) const {
            if (mark_ == 0) return slot;
            return slot_of(slot, mark_, bytes == kUnspecifiedByteCount ? size - offset : bytes);
        }

        /// The first transfers that were posted and not waited for; a wait does not poll for others.
        class Posted {
        public:
            std::uint64_t add(int peer, std::uint64_t slot) {
                if (count_ < transfers_.size()) transfers_[count_++] = {peer, slot};
                return slot;
            }
            /// Removes a transfer that `done` is true of; false if there is none.
            template <class Done>
            bool remove(Done&& done) {
                for (std::size_t i = 0; i < count_; ++i) {
                    if (!done(transfers_[i].peer, transfers_[i].slot)) continue;
                    transfers_[i] = transfers_[--count_];
                    return true;
                }
                return false;
            }
            bool empty() const { return count_ == 0; }

        private:
            struct Transfer {
                int peer;
                std::uint64_t slot;
            };
            std::array<Transfer, 8> transfers_;
            std::size_t count_ = 0;
        };

        /// Reads the connections on this thread until one of these transfers is probably complete, for a
        /// short time: Gloo's thread has to be woken, and wakes this one. Gloo knows whether it is complete.
        void poll(Posted& posted, Connection::Event event) {
            if (posted.empty() || !polls_ || !all_.polls_) return;
            const auto until = std::chrono::steady_clock::now() + longest_poll;
            do {
                if (posted.remove([&](int peer, std::uint64_t slot) {
                        return static_cast<Connection&>(*all_.getPair(peer)).poll(event, slot);
                    }))
                    return;
                std::this_thread::yield();
            } while (std::chrono::steady_clock::now() < until);
        }

        const std::unique_ptr<::gloo::transport::UnboundBuffer> gloo_;
        Buffers& all_;
        Posted sends_;
        Posted receives_;
        const std::uint64_t mark_;
        bool polls_;
    };

    const std::shared_ptr<::gloo::transport::Context> gloo_;
    const bool polls_;
    std::mutex mutex_;
    Buffer* first_ = nullptr;
    bool cut_ = false;
};

Connections::Connections(std::shared_ptr<Network> network, int group_rank, int size)
    : ::gloo::Context(group_rank, size), network_(std::move(network)) {
    setTimeout(without_end);
    device_ = network_->device();
    messages_ = std::make_shared<ConnectionContext>(device_, group_rank, size);
    buffers_ = std::make_shared<Buffers>(messages_, network_->has_processors());
    transportContext_ = buffers_;
    // Ends are made on Gloo's thread, some at a time: it serves other groups in between.
    constexpr auto at_a_time = 64;
    for (int next = 0; next < size;) {
        network_->run([&] {
            for (const auto stop = std::min(size, next + at_a_time); next < stop; ++next)
                if (next != group_rank) transportContext_->createPair(next);
        });
    }
    if (group_rank + 1 == size) return;
    const auto listener = Network::listener_of(network_);
    for (int i = group_rank + 1; i < size; ++i) awaited_.try_emplace(i, listener);
}

Connections::~Connections() {
    const auto wakeup = Network::FastWakeup(network_);
    buffers_ = nullptr;
    messages_ = nullptr;
    transportContext_ = nullptr;
    device_ = nullptr;
}

Connection& Connections::connection(int group_rank) const {
    return static_cast<Connection&>(*transportContext_->getPair(group_rank));
}

std::string Connections::endpoint_for(int group_rank) const {
    const auto found = awaited_.find(group_rank);
    return found == awaited_.end() ? "" : found->second.endpoint().bytes();
}

std::vector<int> Connections::connect(const std::vector<std::string>& endpoints,
                                      std::chrono::steady_clock::time_point until,
                                      const std::function<void()>& look,
                                      const std::function<bool(int group_rank)>& ended) {
    using Clock = std::chrono::steady_clock;
    using std::chrono::milliseconds;
    const auto begin = Clock::now();
    auto next_look = begin + shortest_between_looks;
    const auto look_when_due = [&] {
        const auto now = Clock::now();
        if (now < next_look) return;
        look();
        next_look = now + std::clamp<Clock::duration>((now - begin) / 4, shortest_between_looks,
                                                      longest_between_looks);
    };
    // To all lower ranks at once: one that does not answer must not delay the others. Where this fails they
    // stay open until the peers know why.
    for (int i = 0; i < rank; ++i)
        step_with(i, [&] { open_.try_emplace(i, Endpoint::from(endpoints[static_cast<std::size_t>(i)])); });
    for (auto waited = std::vector<pollfd>(open_.size()); !open_.empty(); look_when_due()) {
        auto next = std::min(until, next_look);
        auto now = Clock::now();
        auto seen = waited.begin();
        auto kept = seen;
        for (auto each = open_.begin(); each != open_.end(); ++seen) {
            auto& [group_rank, connector] = *each;
            // Of many sockets few have news at a time.
            const auto connected = (seen->revents != 0 || now >= connector.next()) &&
                                   step_with(group_rank, [&, peer = group_rank, &socket = connector] {
                                       if (!socket.advance()) return false;
                                       connection(peer).adopt(socket.take(), true);
                                       return true;
                                   });
            if (connected) {
                each = open_.erase(each);
                continue;
            }
            *kept++ = connector.awaited();
            next = std::min(next, connector.next());
            ++each;
        }
        waited.erase(kept, waited.end());
        now = Clock::now();
        if (open_.empty() || now >= until) break;
        const auto wait = std::chrono::ceil<milliseconds>(next - now).count();
        ::poll(waited.data(), waited.size(), static_cast<int>(std::clamp<long>(wait, 0, 1000)));
    }
    auto missing = std::vector<int>{};
    for (const auto& [group_rank, connector] : open_) missing.push_back(group_rank);
    for (auto& [group_rank, peer] : awaited_) {
        const auto comes = [&, i = group_rank, &awaited = peer] {
            return step_with(i, [&] {
                if (!awaited.wait_until(std::min(until, next_look))) return false;
                connection(i).adopt(awaited.take(), false);
                return true;
            });
        };
        try {
            while (!comes()) {
                throw_if_short(peer.shortage(std::chrono::seconds(1)));
                if (ended(group_rank) && !comes()) throw Unreachable{group_rank, "its process has ended"};
                if (Clock::now() >= until) {
                    missing.push_back(group_rank);
                    break;
                }
                look_when_due();
            }
        } catch (const Unreachable&) {
            // After the timeout the peer may have given up a little earlier: it had arrived.
            if (missing.empty()) throw;
        }
    }
    // A peer that comes later must not be refused before this rank has said why it gives up.
    if (missing.empty()) awaited_.clear();
    for (const auto& [group_rank, peer] : awaited_)
        if (std::ranges::count(missing, group_rank) > 0) throw_if_short(peer.shortage({}));
    return missing;
}

bool Connections::is_open(int group_rank, std::chrono::steady_clock::time_point until) const {
    for (;;) {
        const auto incoming = connection(group_rank).incoming();
        if (incoming != Connection::Incoming::unread) return incoming == Connection::Incoming::nothing;
        if (std::chrono::steady_clock::now() >= until) return true;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

std::unique_ptr<Connections::Buffer> Connections::buffer(const void* data, std::size_t bytes,
                                                         std::uint64_t mark) {
    return buffers_->make(const_cast<void*>(data), bytes, mark, false);
}

CallConnections::CallConnections(Connections& connections, std::uint64_t mark, bool polls)
    : ::gloo::Context(connections.rank, connections.size) {
    /// Makes the buffers of one call.
    class Marked final : public ::gloo::transport::Context {
    public:
        Marked(Connections::Buffers& all, std::uint64_t mark, bool polls)
            : Context(all.rank, all.size), all_(all), mark_(mark), polls_(polls) {
            setTimeout(without_end);
        }
        std::unique_ptr<::gloo::transport::Pair>& getPair(int rank) override { return all_.getPair(rank); }
        std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override {
            return all_.createPair(rank);
        }
        std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                              std::size_t bytes) override {
            return all_.make(data, bytes, mark_, polls_);
        }

    private:
        Connections::Buffers& all_;
        const std::uint64_t mark_;
        const bool polls_;
    };
    setTimeout(without_end);
    transportContext_ = std::make_shared<Marked>(*connections.buffers_, mark, polls);
}

void Connections::on_error(std::function<void(const std::string& text)> explain) {
    buffers_->explain = std::move(explain);
}

void Connections::cut() noexcept {
    const auto wakeup = Network::FastWakeup(network_);
    buffers_->cut();
}

}  // namespace rankmesh::detail
