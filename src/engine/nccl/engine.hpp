// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "engine/exchange.hpp"
#include "engine/nccl/channel.hpp"
#include "engine/nccl/comm.hpp"
#include "engine/nccl/device.hpp"
#include "engine/nccl/unique_ids.hpp"

namespace rankmesh::detail {

/// Gathers the texts of all ranks on every rank, in rank order: up a binomial tree and down again.
std::vector<std::string> all_say(Exchange& exchange, const std::string& own);

/// The communicators of one rank: one of all ranks, made when the first group of several is, and of it one
/// split for each declared item.
class NcclEngine final : public DeviceEngine {
public:
    /// `root`, if any, is an existing communicator of all ranks, whose configuration says whether those split
    /// from it share its resources; otherwise `share` does.
    NcclEngine(Exchange& exchange, std::shared_ptr<NcclDevice> device, bool share, Duration timeout,
               std::unique_ptr<NcclComm> root, std::shared_ptr<Cause> cause)
        : exchange_(exchange),
          device_(std::move(device)),
          share_(share),
          timeout_(timeout),
          free_before_(free_memory()),
          cause_(std::move(cause)),
          root_(std::move(root)) {}
    ~NcclEngine() override { device_->reaper()->retire(std::move(root_)); }

    std::shared_ptr<Channel> create(const ChannelRequest* request, const std::shared_ptr<Channel>& host,
                                    bool everyone) override;
    void restore(Channel& channel, const ChannelRequest& request,
                 const std::shared_ptr<Channel>& host) override {
        static_cast<NcclChannel&>(channel).restore(
            [&](const NcclComm::Phase& phase) { return init_group(request, *host, phase); });
    }
    void check_settings(const DeviceSettings& settings, const std::string& whose) const override;
    std::shared_ptr<Channel> alone() override {
        return std::make_shared<NcclChannel>(NcclChannel::Parts{.device = device_});
    }
    /// `3 NCCL communicators, 250 MiB of device 0`.
    std::string report() const override;

    /// The communicator of all survivors, shrunk from this engine's; null on all of them if one has none, or
    /// this NCCL cannot shrink. Called by all of `survivors`.
    std::unique_ptr<NcclComm> shrink(Exchange& survivors);
    /// Called when an exception ends this rank: aborts everything in flight.
    void leave() noexcept {
        for (const auto& weak : channels_)
            if (const auto channel = weak.lock()) channel->leave();
        if (root_) root_->stop();
    }
    const NcclDevice& device() const { return *device_; }

private:
    NcclComm& root();
    std::unique_ptr<NcclComm> init_group(const ChannelRequest& request, Channel& host,
                                         const NcclComm::Phase& phase);
    void look_at_hosts() const;
    [[noreturn]] void throw_with_names(const NcclComm::Phase& phase, bool everyone);
    std::size_t free_memory() const;

    Exchange& exchange_;
    const std::shared_ptr<NcclDevice> device_;
    const bool share_;
    const Duration timeout_;
    const std::size_t free_before_;
    const std::shared_ptr<Cause> cause_;
    std::unique_ptr<NcclComm> root_;
    std::vector<std::weak_ptr<NcclChannel>> channels_;  // of several ranks
    struct Host {
        std::weak_ptr<Channel> channel;
        std::shared_ptr<const Label> label;
    };
    std::vector<Host> hosts_;  // of those
};

}  // namespace rankmesh::detail
