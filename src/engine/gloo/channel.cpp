// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/channel.hpp"

#include <exception>

#include "engine/gloo/transport/connection.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

constexpr auto shift_slot = first_slot(SlotKind::shift);
/// The number of started collectives of a channel that run at once: each spends most of its time waiting.
constexpr auto most_workers = std::size_t{4};

/// True for operations that are posted at once, not run by a thread.
bool is_posted(Operation operation) { return is_point_to_point(operation) || operation == Operation::shift; }

}  // namespace

void GlooChannel::stop_workers() {
    if (receiver_.joinable()) {
        {
            const auto lock = std::lock_guard(receiving_);
            stops_receiving_ = true;
        }
        connections_->messages().wake();
        receiver_.join();
        stops_receiving_ = false;
    }
    monitor_->change([this] { stopping_ = true; });
    for (auto& worker : workers_) worker.join();
    workers_.clear();
    idle_ = 0;
}

GlooChannel::~GlooChannel() {
    if (!monitor_) return;
    // The remaining operations, notices of checked mode after a loss, are not waited for: if the channel has
    // not failed, they would end only if it did.
    const auto pending = monitor_->change([this] {
        return std::ranges::any_of(tickets_, [](const auto& each) { return each.second->open > 0; });
    });
    if (pending || defers_) leave();
    for (auto& [number, ticket] : tickets_)
        if (ticket->watcher.joinable()) ticket->watcher.join();
    stop_workers();
}

void GlooChannel::fail_with(const std::string& text, const Label& label) {
    monitor_->explain(text);
    cause_->set(monitor_->failure());
    try {
        monitor_->throw_failure(label);
    } catch (...) {
        fail(std::current_exception());
        throw;
    }
}

void GlooChannel::run(const Call& call, const Label& label, Duration timeout) {
    if (is_posted(call.operation)) return wait(start({&call, 1}, label, true), label, timeout);
    if (monitor_->is_broken()) fail_with({}, label);
    const auto mark = monitor_->called(call, ++collectives_);
    monitor_->wait_for({.call = &call, .label = &label, .number = collectives_, .timeout = timeout});
    try {
        run_collective(call, std::make_shared<CallConnections>(*connections_, mark, true),
                       static_cast<std::uint32_t>(collectives_));
    } catch (const std::exception& error) {
        const auto text = std::string(error.what());
        monitor_->explain(text);  // while its timeout still runs
        monitor_->arrive();
        fail_with(text, label);
    }
    monitor_->arrive();
    cause_->clear();
}

GlooChannel::Started& GlooChannel::add(Ticket& ticket, const Call& given) {
    auto& started = ticket.started.emplace_back(Started{.call = OwnedCall(given, ranks_.size())});
    started.number = is_point_to_point(given.operation) ? ++messages_ : ++collectives_;
    if (!is_point_to_point(given.operation)) started.mark = monitor_->called(given, started.number);
    return started;
}

/// Posts the sends and receives of a message, or of a shift, to Gloo.
void GlooChannel::post(Ticket& ticket, Started& started) {
    auto& call = started.call;
    const auto shifts = call.operation == Operation::shift;
    const auto to = peers_of(call, connections_->rank, connections_->size).to;
    const auto from = peers_of(call, connections_->rank, connections_->size).from;
    if (call.in == call.out && to >= 0 && from >= 0) call.copy_input();
    const auto* in = static_cast<const char*>(call.in);
    if (to == connections_->rank && from == connections_->rank) {  // a shift by a multiple of the size
        if (call.out != call.in && call.in_bytes() > 0)
            std::copy_n(in, call.in_bytes(), static_cast<char*>(call.out));
        return;
    }
    if (from == any_source || (from >= 0 && !shifts && defers_)) {
        const auto lock = std::lock_guard(receiving_);
        unposted_.push_back({&ticket, &started});
        defers_ = ticket.defers = true;
        ++ticket.unposted;
        post_announced();
    } else if (from >= 0) {
        receive(started, from);
    }
    if (to >= 0) {
        const auto mark = shifts ? started.mark : monitor_->called(CallHistory::Kind::send, to, call);
        const auto& half =
            started.halves.emplace_back(Half{connections_->buffer(in, call.in_bytes(), mark), to, false});
        half.buffer->send(to, shifts ? shift_slot : message_slot);
    }
}

void GlooChannel::receive(Started& started, int from) {
    auto& call = started.call;
    const auto shifts = call.operation == Operation::shift;
    const auto mark = shifts ? started.mark : monitor_->called(CallHistory::Kind::recv, from, call);
    const auto& half =
        started.halves.emplace_back(Half{connections_->buffer(call.out, call.out_bytes(), mark), from, true});
    half.buffer->recv(from, shifts ? shift_slot : message_slot);
}

/// `blocks`: this rank waits for it next.
std::uint64_t GlooChannel::start(std::span<const Call> calls, const Label& label, bool blocks) {
    if (monitor_->is_broken()) fail_with({}, label);
    auto made = std::make_unique<Ticket>();
    auto& ticket = *made;
    auto runs = std::vector<Started*>{};
    try {
        for (const auto& call : calls) {
            auto& started = add(ticket, call);
            if (is_posted(call.operation))
                post(ticket, started);
            else
                runs.push_back(&started);
        }
    } catch (const std::exception& error) {
        const auto text = std::string(error.what());
        monitor_->explain(text);  // from now on Gloo accesses no buffer
        withdraw(ticket);
        fail_with(text, label);
    }
    if (!runs.empty()) {
        ticket.open = static_cast<int>(runs.size());
        const auto more = monitor_->change([&] {
            for (auto* started : runs) queue_.emplace_back(&ticket, started);
            return idle_ < queue_.size() && workers_.size() < most_workers;
        });
        if (more) workers_.emplace_back([this] { work(); });
    }
    if (ticket.defers && !blocks && !receiver_.joinable())
        receiver_ = std::thread([this] { receive_announced(); });
    tickets_[next_ticket_] = std::move(made);
    return next_ticket_++;
}

/// A thread of the channel: runs started collectives, one after the other.
void GlooChannel::work() {
    for (;;) {
        auto next = std::pair<Ticket*, Started*>{};
        monitor_->wait([&, idle = false]() mutable {
            if (!idle) ++idle_;
            idle = true;
            if (queue_.empty()) return stopping_;
            next = queue_.front();
            queue_.pop_front();
            --idle_;
            return true;
        });
        if (!next.first) return;
        auto& [ticket, started] = next;
        auto failed = monitor_->is_broken();
        try {
            if (!failed)
                run_collective(started->call,
                               std::make_shared<CallConnections>(*connections_, started->mark, false),
                               static_cast<std::uint32_t>(started->number));
        } catch (const std::exception& error) {
            failed = true;
            monitor_->explain(error.what());
        }
        monitor_->change([failed, ended = ticket] {
            if (failed) ended->failed = true;
            --ended->open;
        });
    }
}

/// Waits for the messages of a ticket, on the thread that is in wait(), which `polls`, or on the watcher.
void GlooChannel::finish_messages(Ticket& ticket, bool polls) {
    for (auto& started : ticket.started)
        for (auto& half : started.halves) {
            if (is_point_to_point(started.call.operation)) {
                ticket.awaited = half.group_rank;
                if (ticket.waited) monitor_->await(half.group_rank);
            }
            half.buffer->set_polls(polls);
            if (half.receives)
                half.buffer->waitRecv();
            else
                half.buffer->waitSend();
        }
}

/// Notes whose message the ticket awaits first, for a wait that expires before anybody waits for it; false if
/// nothing of it was posted to Gloo.
bool GlooChannel::await_first(Ticket& ticket) {
    const auto posted =
        std::ranges::find_if(ticket.started, [](const Started& started) { return !started.halves.empty(); });
    if (posted == ticket.started.end()) return false;
    auto none = -1;
    if (is_point_to_point(posted->call.operation))
        ticket.awaited.compare_exchange_strong(none, posted->halves.front().group_rank);
    return true;
}

/// Returns once the collectives of a ticket are complete; false if it was interrupted before.
bool GlooChannel::await_collectives(const Ticket& ticket, const std::function<bool()>& is_interrupted) {
    const auto is_over = [&] { return ticket.open == 0; };
    if (!is_interrupted) return monitor_->wait(is_over), true;
    auto bell = Bell();
    const auto silent = std::unique_ptr<PeerMonitor, void (*)(PeerMonitor*)>(
        &*monitor_, [](PeerMonitor* monitor) { monitor->set_bell(nullptr); });
    monitor_->set_bell(&bell);
    for (auto look = from_now(between_looks); !monitor_->look(is_over);) {
        bell.wait_until(look);
        if (std::chrono::steady_clock::now() < look) continue;
        if (is_interrupted()) return false;
        look = from_now(between_looks);
    }
    return true;
}

bool GlooChannel::wait_for(std::uint64_t number, const Label& label, Duration timeout,
                           const Purpose& purpose) {
    const auto found = tickets_.find(number);
    auto& ticket = *found->second;
    const auto& first = ticket.started.front();
    if (!ticket.defers) await_first(ticket);
    monitor_->wait_for({.call = &first.call,
                        .label = &label,
                        .number = first.number,
                        .awaited = ticket.awaited,
                        .timeout = timeout});
    ticket.waited = true;
    try {
        if (ticket.defers) await_posted(ticket);
        if (ticket.watcher.joinable()) {
            for (auto known = -1; known != ticket.awaited;) monitor_->await(known = ticket.awaited);
            ticket.watcher.join();
        } else {
            finish_messages(ticket, true);
        }
        monitor_->await(-1);
        if (!await_collectives(ticket, purpose.is_interrupted)) {
            ticket.waited = false;
            monitor_->arrive();
            return false;
        }
    } catch (const std::exception& error) {
        monitor_->explain(error.what());
        monitor_->wait([&] { return ticket.open == 0; });  // the channel's thread failed in the same way
        ticket.failed = true;
    }
    monitor_->arrive();
    const auto failed = ticket.failed;
    if (failed) withdraw(ticket);
    set_sender(ticket.sender);
    tickets_.erase(found);
    if (failed) fail_with({}, label);
    cause_->clear();
    return true;
}

bool GlooChannel::done(std::uint64_t number) {
    auto& ticket = *tickets_.at(number);
    if (ticket.defers) {
        const auto lock = std::lock_guard(receiving_);
        if (!monitor_->is_broken()) post_announced();
        if (ticket.unposted > 0) return monitor_->is_broken();
    }
    // Gloo has no test for completion: a thread waits for the message.
    if (await_first(ticket) && !ticket.watcher.joinable()) {
        monitor_->change([&] { ++ticket.open; });
        ticket.watcher = std::thread([this, &ticket] {
            auto failed = false;
            try {
                finish_messages(ticket, false);
            } catch (const std::exception& error) {
                failed = true;
                monitor_->explain(error.what());
            }
            monitor_->change([&] {
                if (failed) ticket.failed = true;
                --ticket.open;
            });
        });
    }
    return monitor_->is_broken() || monitor_->look([&] { return ticket.open == 0; });
}

void GlooChannel::leave(std::uint64_t number, const Label& label) noexcept {
    const auto found = tickets_.find(number);
    auto& ticket = *found->second;
    if (!done(number))
        monitor_->fail(
            cause_->of_leaving(rank(), cat("rank ", rank(), " left by an exception with a pending ",
                                           to_string(ticket.started.front().call), " on ", label.text())));
    withdraw(ticket);
    if (ticket.watcher.joinable()) ticket.watcher.join();
    monitor_->wait([&] { return ticket.open == 0; });
    tickets_.erase(found);
}

}  // namespace rankmesh::detail
