// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/interop/nccl.hpp>

#include "engine/access.hpp"
#include "engine/nccl/channel.hpp"
#include "engine/nccl/world.hpp"

namespace rankmesh::nccl {
namespace {

class AdoptedWorld : public World {
public:
    explicit AdoptedWorld(std::shared_ptr<detail::WorldState> state) : World(std::move(state)) {}
};

/// Returns the device of a communicator, or throws.
int device_of(ncclComm_t comm, detail::WorldState& host) {
    const auto& nccl = detail::Libraries::get().nccl;
    auto size = 0;
    auto rank = 0;
    auto device = 0;
    if (!comm || nccl.count(comm, &size) != ncclSuccess || nccl.user_rank(comm, &rank) != ncclSuccess ||
        nccl.device(comm, &device) != ncclSuccess)
        throw UsageError(detail::cat("rank ", host.rank(), " adopts what is no communicator of NCCL"));
    if (size != host.size() || rank != host.rank())
        throw UsageError(detail::cat("rank ", host.rank(), " of ", host.size(),
                                     " adopts a communicator in which it is rank ", rank, " of ", size,
                                     "; both must be equal"));
    return device;
}

}  // namespace

World adopt(const rankmesh::World& host, ncclComm_t comm) {
    const auto& state = detail::Access::checked_state(host);
    auto wrong = std::string{};
    auto device = 0;
    try {
        device = device_of(comm, *state);
    } catch (const UsageError& error) {
        wrong = detail::cat("m", error.what());
    } catch (const Error& error) {
        wrong = detail::cat("e", error.what());
    }
    detail::throw_what_is_wrong(state->exchange(), wrong);
    return AdoptedWorld(
        std::make_shared<detail::NcclWorld>(state, device, false, detail::NcclComm::adopt(comm)));
}

namespace {

const detail::NcclChannel& channel_of(const Communicator& communicator) {
    const auto& engine = detail::Access::state(communicator).channel->engine_channel();
    if (const auto* channel = dynamic_cast<const detail::NcclChannel*>(&engine)) return *channel;
    throw UsageError(detail::cat(communicator.label(), " works on ", to_string(communicator.space()),
                                 " memory, without NCCL; take on() of a world on devices, not its host()"));
}

}  // namespace

ncclComm_t native(const Communicator& communicator) { return channel_of(communicator).comm(); }

std::unique_lock<std::mutex> lock(const Communicator& communicator) {
    return channel_of(communicator).lock();
}

}  // namespace rankmesh::nccl
