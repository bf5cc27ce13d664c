// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/nccl/engine.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {

/// Throws on every rank the error of any rank: `wrong` is "" for none, `m` and the text of a UsageError, or
/// `e` and that of an EngineFailure.
void throw_what_is_wrong(Exchange& exchange, const std::string& wrong);

/// One rank of a world with NCCL for devices beside the engine of the host's world.
class NcclWorld final : public WorldState {
public:
    /// Created by all ranks of `host` together; an error of one of them is thrown on all. `root`, if any, is
    /// a communicator of all of them.
    NcclWorld(std::shared_ptr<WorldState> host, std::optional<int> device, bool share,
              std::unique_ptr<NcclComm> root);
    /// A world on a device that was in use before, made by each rank alone.
    NcclWorld(std::shared_ptr<WorldState> host, std::shared_ptr<NcclDevice> device, bool share,
              std::unique_ptr<NcclComm> root);

    std::string engine() const override { return host_->engine(); }
    Exchange& exchange() override { return host_->exchange(); }
    void leave(const std::string& what) noexcept override;
    std::shared_ptr<WorldState> sub(const std::vector<int>& ranks) override;
    std::shared_ptr<WorldState> survivors(Duration grace) override;
    std::shared_ptr<WorldState> grow(int most, Duration timeout) override;
    std::string host() override { return host_->host(); }
    DeviceEngine* device() override { return &engine_; }
    void record_in(std::shared_ptr<Recorder> recorder,
                   std::shared_ptr<const std::vector<int>> roots) override {
        if (host_->recorder() != recorder) host_->record_in(recorder, roots);
        WorldState::record_in(std::move(recorder), std::move(roots));
    }

    int device_number() const { return engine_.device().number; }

private:
    const std::shared_ptr<WorldState> host_;
    const bool share_;
    NcclEngine engine_;
};

}  // namespace rankmesh::detail
