// SPDX-License-Identifier: Apache-2.0
#include "fake/nccl/plan.hpp"

#include <algorithm>
#include <cstring>

#include "fake/nccl/arithmetic.hpp"
#include "fake/nccl/order.hpp"

namespace fake_nccl {
namespace {

/// The communicator was aborted or revoked.
struct Stopped {};

std::string where(const Operation& operation) {
    return text(operation.words(), " on communicator ", operation.communicator->name, ", rank ",
                operation.communicator->rank);
}

/// A frame of a peer; the stream waits until it has arrived.
Frame taken(const Operation& operation, int peer, Kind kind) {
    auto& communicator = *operation.communicator;
    auto& connection = *communicator.connection;
    const auto from = communicator.connection_rank(peer);
    // A rank in a call that all ranks make makes no other call before all have arrived.
    const auto other = [&] { return connection.first(communicator.id, Kind::exchange, from); };
    auto frame = Frame{};
    if (connection.take({communicator.id, kind, from, operation.number}, frame, out_of_patience(),
                        [&] { return communicator.is_stopped() || !other().empty(); }))
        return frame;
    if (communicator.is_stopped()) throw Stopped{};
    const auto what = where(operation);
    if (!other().empty()) violation(what, ": rank ", peer, " calls ", other(), " instead");
    if (communicator.failed_rank() >= 0)
        violation(what, ": ", communicator.failure(),
                  ", and neither ncclCommAbort nor ncclCommRevoke was called");
    if (kind == Kind::receipt && !connection.first(communicator.id, Kind::message, from).empty())
        violation(what, " waits in vain while rank ", peer,
                  " sends to it too; messages in both directions belong in one group");
    violation(what, " waits in vain for rank ", peer);
}

std::string piece(const Operation& operation, int peer) {
    const auto at = piece_for(operation, peer);
    auto bytes = at.size == 0 ? std::string{} : std::string(operation.from.behind + at.begin, at.size);
    if (!operation.scaled || bytes.empty()) return bytes;
    auto scalar = operation.scaled->scalar;
    if (operation.scaled->on_device) {
        const auto place = fake_cuda::find(operation.scaled->on_device, size_of(operation.type));
        if (!place.of)
            violation(where(operation), ": the scalar does not lie in memory of a device any more");
        scalar.assign(place.behind, size_of(operation.type));
    }
    return scaled(operation.type, bytes, scalar.data());
}

void tell(const Operation& operation) {
    auto& communicator = *operation.communicator;
    const auto send = [&](int peer, Kind kind, const Frame& frame) {
        communicator.connection->send(communicator.connection_rank(peer), communicator.id, kind,
                                      operation.number, frame, [&] { return communicator.is_stopped(); });
    };
    if (operation.function == Function::send) {
        send(operation.root, Kind::message, {operation.content(), piece(operation, operation.root)});
    } else if (!operation.is_message()) {
        for (int peer = 0; peer < communicator.size(); ++peer)
            send(peer, Kind::collective,
                 {operation.words() + "\n" + operation.order, piece(operation, peer)});
    }
}

void finish_receive(const Operation& operation) {
    auto& communicator = *operation.communicator;
    const auto frame = taken(operation, operation.root, Kind::message);
    if (frame.about != operation.content())
        violation(where(operation), ": rank ", operation.root, " sends ", frame.about);
    if (!frame.data.empty()) std::memcpy(operation.to.behind, frame.data.data(), frame.data.size());
    communicator.connection->send(communicator.connection_rank(operation.root), communicator.id,
                                  Kind::receipt, operation.number, {},
                                  [&] { return communicator.is_stopped(); });
}

void finish_collective(const Operation& operation) {
    const auto& communicator = *operation.communicator;
    auto pieces = std::vector<std::string>{};
    for (int peer = 0; peer < communicator.size(); ++peer) {
        auto frame = taken(operation, peer, Kind::collective);
        const auto end = frame.about.find('\n');
        const auto words = frame.about.substr(0, end);
        if (words != operation.words())
            violation("collective ", operation.number, " of communicator ", communicator.name, ": rank ",
                      communicator.rank, " calls ", operation.words(), ", rank ", peer, " ", words);
        compare_orders(communicator, words, operation.order, peer, frame.about.substr(end + 1));
        pieces.push_back(std::move(frame.data));
    }
    const auto put = [&](const std::string& bytes, std::size_t at) {
        if (!bytes.empty()) std::memcpy(operation.to.behind + at, bytes.data(), bytes.size());
    };
    if (operation.bytes_out() == 0) return;
    if (operation.reduces()) {
        put(reduced(operation.type, operation.reduction, pieces), 0);
    } else if (operation.function == Function::broadcast || operation.function == Function::scatter) {
        put(pieces[static_cast<std::size_t>(operation.root)], 0);
    } else {
        for (std::size_t peer = 0; peer < pieces.size(); ++peer) put(pieces[peer], peer * operation.bytes());
    }
}

/// What was stopped has left anything in its results.
void scramble(const std::vector<Operation>& operations) {
    for (const auto& each : operations)
        if (each.to.of) std::memset(each.to.behind, 0x5a, each.bytes_out());
}

void run(const std::vector<Operation>& operations) {
    const auto kernel = fake_cuda::Kernel(operations.front().communicator->device);
    try {
        if (operations.front().communicator->is_stopped()) throw Stopped{};
        for (const auto& each : operations) tell(each);
        for (const auto& each : operations)
            if (each.function == Function::receive) finish_receive(each);
        for (const auto& each : operations)
            if (!each.is_message()) finish_collective(each);
        for (const auto& each : operations)
            if (each.function == Function::send) taken(each, each.root, Kind::receipt);
    } catch (const Stopped&) {
        scramble(operations);
    }
}

}  // namespace

void launch(std::vector<Operation> operations) {
    auto& communicator = *operations.front().communicator;
    auto streams = std::vector<std::shared_ptr<fake_cuda::Stream>>{};
    for (auto& each : operations) {
        if (each.function == Function::send) {
            each.number = communicator.sends[each.root]++;
        } else if (each.function == Function::receive) {
            each.number = communicator.receives[each.root]++;
        } else {
            each.number = communicator.collectives++;
            each.order = counted(communicator);
        }
        if (std::find(streams.begin(), streams.end(), each.stream) == streams.end())
            streams.push_back(each.stream);
    }
    // All streams of the group wait for each other, and for what the communicator was given before.
    auto before = std::vector<std::shared_ptr<fake_cuda::Mark>>{};
    if (const auto last = communicator.tail()) before.push_back(last);
    for (std::size_t i = 1; i < streams.size(); ++i) before.push_back(enqueue(streams[i], nullptr));
    const auto done = enqueue(streams.front(), [before, operations = std::move(operations)] {
        for (const auto& each : before) each->wait();
        run(operations);
    });
    for (std::size_t i = 1; i < streams.size(); ++i) enqueue(streams[i], [done] { done->wait(); });
    communicator.used = true;
    communicator.set_tail(done);
}

}  // namespace fake_nccl
