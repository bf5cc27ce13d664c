// SPDX-License-Identifier: Apache-2.0
#include "support/staged_world.hpp"

#include <cuda_runtime_api.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "engine/access.hpp"
#include "engine/nccl/operations.hpp"

namespace support {

using namespace rankmesh::detail;
using rankmesh::Space;
using rankmesh::WorldOptions;

namespace {

void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::logic_error(cudaGetErrorString(error));
}

/// A call whose buffers lie on the device, and where they came from.
class Staged {
public:
    Staged(const Call& given, int group_rank, cudaStream_t stream) : call(given), given_(given) {
        const auto used = used_buffers(given, group_rank);
        const auto* in = static_cast<const char*>(used.in);
        const auto* out = static_cast<const char*>(used.out);
        // One buffer may be a part of the other.
        const auto in_bytes = in ? given.in_bytes() : 0;
        const auto out_bytes = out ? given.out_bytes() : 0;
        if (in && out_bytes >= in_bytes && in >= out && in < out + out_bytes) {
            out_ = copied(out, out_bytes, stream);
            in_ = out_ + (in - out);
        } else if (out && out >= in && out < in + in_bytes) {
            in_ = copied(in, in_bytes, stream);
            out_ = in_ + (out - in);
        } else {
            in_ = copied(in, in_bytes, stream);
            out_ = copied(out, out_bytes, stream);
        }
        out_bytes_ = out_bytes;
        call.in = in_;
        call.out = out_;
        call.in_space = call.out_space = Space::device;
        call.stream = {stream};
    }
    Staged(Staged&& other) noexcept = default;
    Staged& operator=(Staged&&) = delete;
    ~Staged() {
        for (auto* each : held_) cudaFree(each);
    }

    void download(cudaStream_t stream) const {
        if (out_bytes_ > 0)
            check(cudaMemcpyAsync(given_.out, out_, out_bytes_, cudaMemcpyDeviceToHost, stream));
        check(cudaStreamSynchronize(stream));
    }

    Call call;

private:
    char* copied(const char* from, std::size_t bytes, cudaStream_t stream) {
        if (bytes == 0) return nullptr;
        void* made = nullptr;
        check(cudaMalloc(&made, bytes));
        held_.push_back(made);
        check(cudaMemcpyAsync(made, from, bytes, cudaMemcpyHostToDevice, stream));
        return static_cast<char*>(made);
    }

    Call given_;
    char* in_ = nullptr;
    char* out_ = nullptr;
    std::size_t out_bytes_ = 0;
    std::vector<void*> held_;
};

class StagedChannel final : public Channel {
public:
    StagedChannel(std::shared_ptr<Channel> device, std::shared_ptr<Channel> host, int group_rank)
        : device_(std::move(device)), host_(std::move(host)), group_rank_(group_rank) {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    }
    ~StagedChannel() override { cudaStreamDestroy(stream_); }

    void run(const Call& call, const Label& label, Duration timeout) override {
        if (call.operation == Operation::monitored_barrier) return host_->run(call, label, timeout);
        const auto staged = Staged(call, group_rank_, stream_);
        device_->run(staged.call, label, timeout);
        staged.download(stream_);
        device_->throw_if_broken(label);
    }
    std::uint64_t start(std::span<const Call> calls, const Label& label) override {
        auto flight = Flight{};
        if (calls.front().operation == Operation::monitored_barrier) {
            flight.on = host_.get();
            flight.ticket = host_->start(calls, label);
        } else {
            auto moved = std::vector<Call>{};
            for (const auto& call : calls)
                moved.push_back(flight.staged.emplace_back(call, group_rank_, stream_).call);
            flight.on = device_.get();
            flight.ticket = device_->start(moved, label);
        }
        flights_.emplace(++last_, std::move(flight));
        return last_;
    }
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override {
        const auto flight = std::move(flights_.extract(ticket).mapped());
        flight.on->wait(flight.ticket, label, timeout);
        if (flight.staged.empty()) return;
        flight.on->synchronize(flight.ticket, label, timeout);
        for (const auto& each : flight.staged) each.download(stream_);
    }
    bool done(std::uint64_t ticket) override {
        const auto& flight = flights_.at(ticket);
        return flight.on->done(flight.ticket);
    }
    void leave(std::uint64_t ticket, const Label& label) noexcept override {
        const auto flight = std::move(flights_.extract(ticket).mapped());
        flight.on->leave(flight.ticket, label);
    }
    void leave() noexcept override {
        device_->leave();
        host_->leave();
    }
    bool is_pending() override { return !flights_.empty(); }
    void release() override {
        device_->release();
        host_->release();
    }
    Holding holding() override {
        auto held = host_->holding();
        held.device_bytes = device_->holding().device_bytes;
        return held;
    }
    Channel& device() const { return *device_; }
    const std::shared_ptr<Channel>& host() const { return host_; }

private:
    struct Flight {
        Channel* on = nullptr;
        std::uint64_t ticket = 0;
        std::vector<Staged> staged = {};
    };

    const std::shared_ptr<Channel> device_;
    const std::shared_ptr<Channel> host_;
    const int group_rank_;
    cudaStream_t stream_ = nullptr;
    std::map<std::uint64_t, Flight> flights_;
    std::uint64_t last_ = 0;
};

class StagedState final : public WorldState, private Exchange {
public:
    explicit StagedState(std::shared_ptr<WorldState> inner)
        : WorldState(inner->options), inner_(std::move(inner)) {
        WorldState::record_in(inner_->recorder(), inner_->roots());
    }

    std::string engine() const override { return inner_->engine(); }
    Exchange& exchange() override { return *this; }
    void leave(const std::string& what) noexcept override { inner_->leave(what); }
    std::shared_ptr<WorldState> sub(const std::vector<int>& ranks) override {
        return std::make_shared<StagedState>(inner_->sub(ranks));
    }
    std::shared_ptr<WorldState> survivors(Duration grace) override {
        return std::make_shared<StagedState>(inner_->survivors(grace));
    }
    std::shared_ptr<WorldState> grow(int most, Duration timeout) override {
        return std::make_shared<StagedState>(inner_->grow(most, timeout));
    }
    std::string host() override { return inner_->host(); }
    void record_in(std::shared_ptr<Recorder> recorder,
                   std::shared_ptr<const std::vector<int>> roots) override {
        if (inner_->recorder() != recorder) inner_->record_in(recorder, roots);
        WorldState::record_in(std::move(recorder), std::move(roots));
    }

private:
    Exchange& under() const { return inner_->exchange(); }
    int rank() const override { return under().rank(); }
    int size() const override { return under().size(); }
    const std::vector<int>& local_ranks() const override { return under().local_ranks(); }
    void send(int to, const std::string& bytes) override { under().send(to, bytes); }
    std::string receive(int from) override { return under().receive(from); }
    void post(int to, const std::string& bytes) override { under().post(to, bytes); }
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     std::chrono::steady_clock::time_point until) override {
        return under().collect(phase, from, until);
    }
    bool announces() const override { return true; }
    void announce(const std::string& key, std::span<const ChannelRequest> requests) override {
        key_ = key;
        announced_.assign(requests.begin(), requests.end());
    }
    /// Where all plans are equal, all ranks take part in all creations, as they do for a device.
    void max(std::array<std::int64_t, 4>& values) override {
        under().max(values);
        const auto requests = std::exchange(announced_, {});
        if (values[0] != ~values[1] || values[2] != ~values[3]) return;
        auto last = std::array<std::int64_t, 4>{requests.empty() ? -1 : requests.back().item, 0, 0, 0};
        under().max(last);
        // Not before: what an engine has announced may be good until the second step after it.
        if (under().announces()) under().announce(key_, requests);
        auto next = requests.begin();
        for (int item = 0; item <= last[0]; ++item)
            if (next != requests.end() && next->item == item) {
                made_[next->key] = make(*next, true);
                ++next;
            } else {
                inner_->device()->create(nullptr, nullptr, true);
            }
    }
    std::shared_ptr<Channel> create(const ChannelRequest& request) override {
        if (auto found = made_.extract(request.key)) return found.mapped();
        return make(request, false);
    }
    void restore(Channel& channel, const ChannelRequest& request) override {
        auto& staged = static_cast<StagedChannel&>(channel);
        under().restore(*staged.host(), request);
        inner_->device()->restore(staged.device(), request, staged.host());
    }
    std::shared_ptr<Channel> make(const ChannelRequest& request, bool everyone) {
        auto host = under().create(request);
        auto device = inner_->device()->create(&request, host, everyone);
        return std::make_shared<StagedChannel>(std::move(device), std::move(host), request.group_rank);
    }

    const std::shared_ptr<WorldState> inner_;
    std::string key_;
    std::vector<ChannelRequest> announced_;
    std::map<std::string, std::shared_ptr<Channel>> made_;  // by key, until join asks for them
};

}  // namespace

StagedWorld::StagedWorld(rankmesh::World& devices)
    : rankmesh::World(std::make_shared<StagedState>(Access::state(devices))) {}

}  // namespace support
