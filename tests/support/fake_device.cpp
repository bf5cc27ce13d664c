// SPDX-License-Identifier: Apache-2.0
#include "support/fake_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/access.hpp"
#include "engine/channel.hpp"
#include "engine/timeout.hpp"

namespace fake {

using rankmesh::detail::Call;
using rankmesh::detail::cat;
using rankmesh::detail::Channel;
using rankmesh::detail::ChannelRequest;
using rankmesh::detail::Duration;
using rankmesh::detail::from_now;
using rankmesh::detail::Label;
using rankmesh::detail::Operation;
using rankmesh::detail::Ranks;

namespace {

/// What all ranks of this process share: addresses, and what was done wrong.
struct Device {
    static constexpr auto room = std::size_t{1} << 34;  // of addresses, none of which is given twice
    static constexpr auto step = std::size_t{4096};  // between allocations, so that none runs into the next

    static Device& get() {
        static auto device = Device();
        return device;
    }

    std::mutex mutex;
    std::map<const char*, std::weak_ptr<Allocation>> allocations = {};
    std::set<const Queue*> queues = {};
    std::vector<std::string> faults = {};
    char* begin = static_cast<char*>(
        mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    std::size_t used = 0;
};

void fault(const std::string& what) {
    auto& device = Device::get();
    const auto lock = std::lock_guard(device.mutex);
    device.faults.push_back(what);
}

}  // namespace

std::vector<std::string> take_faults() {
    auto& device = Device::get();
    const auto lock = std::lock_guard(device.mutex);
    return std::exchange(device.faults, {});
}

Allocation::Allocation(std::size_t bytes) : bytes_(bytes), held_(std::make_unique<char[]>(bytes)) {
    auto& device = Device::get();
    const auto lock = std::lock_guard(device.mutex);
    address_ = device.begin + device.used;
    device.used += (bytes / Device::step + 2) * Device::step;
    if (device.begin == MAP_FAILED || device.used > Device::room)
        throw std::logic_error("the fake device is out of addresses");
}

std::shared_ptr<Allocation> allocate(std::size_t bytes) {
    auto allocation = std::make_shared<Allocation>(bytes);
    auto& device = Device::get();
    const auto lock = std::lock_guard(device.mutex);
    std::erase_if(device.allocations, [](const auto& each) { return each.second.expired(); });
    device.allocations[allocation->address()] = allocation;
    return allocation;
}

std::shared_ptr<Allocation> allocation_of(const void* address, std::size_t bytes) {
    const auto* begin = static_cast<const char*>(address);
    auto& device = Device::get();
    const auto lock = std::lock_guard(device.mutex);
    const auto after = device.allocations.upper_bound(begin);
    if (after != device.allocations.begin()) {
        const auto found = std::prev(after)->second.lock();
        if (found && found->is_live() && begin + bytes <= found->address() + found->bytes()) return found;
    }
    throw std::logic_error(cat("the device was given ", bytes, " bytes that are not in its memory"));
}

void upload(void* device, const void* host, std::size_t bytes) {
    if (bytes > 0) std::memcpy(allocation_of(device, bytes)->behind(device), host, bytes);
}

void download(void* host, const void* device, std::size_t bytes) {
    if (bytes > 0) std::memcpy(host, allocation_of(device, bytes)->behind(device), bytes);
}

void Event::happen() {
    const auto lock = std::lock_guard(mutex_);
    happened_ = true;
    changed_.notify_all();
}

bool Event::happened() const {
    const auto lock = std::lock_guard(mutex_);
    return happened_;
}

void Event::wait() const {
    auto lock = std::unique_lock(mutex_);
    changed_.wait(lock, [&] { return happened_; });
}

bool Event::wait_until(std::chrono::steady_clock::time_point time) const {
    auto lock = std::unique_lock(mutex_);
    return changed_.wait_until(lock, time, [&] { return happened_; });
}

Queue::Queue() : worker_([this] { work(); }) {
    auto& device = Device::get();
    const auto lock = std::lock_guard(device.mutex);
    device.queues.insert(this);
}

Queue::~Queue() {
    {
        auto& device = Device::get();
        const auto lock = std::lock_guard(device.mutex);
        device.queues.erase(this);
    }
    {
        const auto lock = std::lock_guard(mutex_);
        ending_ = true;
        changed_.notify_all();
    }
    worker_.join();
}

void Queue::put(std::function<void()> task) {
    const auto lock = std::lock_guard(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
}

std::shared_ptr<Event> Queue::record() {
    auto event = std::make_shared<Event>();
    put([event] { event->happen(); });
    return event;
}

void Queue::wait(std::shared_ptr<Event> event) {
    put([event = std::move(event)] { event->wait(); });
}

void Queue::work() {
    while (true) {
        auto task = std::function<void()>{};
        {
            auto lock = std::unique_lock(mutex_);
            changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
            if (tasks_.empty()) return;
            task = std::move(tasks_.front());
            tasks_.pop_front();
        }
        task();
    }
}

namespace detail {
namespace {

/// The queue of a stream.
Queue& queue_of(rankmesh::Stream stream, Queue& null) {
    if (!stream.handle) return null;
    auto* queue = static_cast<Queue*>(stream.handle);
    auto& device = Device::get();
    const auto lock = std::lock_guard(device.mutex);
    if (!device.queues.contains(queue)) throw std::logic_error("a call is ordered on a stream that is none");
    return *queue;
}

/// False for a buffer that a call only carries along.
bool reads(const Call& call, int group_rank) {
    if (call.operation == Operation::scatter) return call.argument == group_rank;
    return call.operation != Operation::recv;
}
bool writes(const Call& call, int group_rank) {
    if (call.operation == Operation::reduce || call.operation == Operation::gather)
        return call.argument == group_rank;
    return call.operation != Operation::send;
}

/// Calls that were handed over together: on their stream's turn they run on the host channel behind theirs.
class Work {
public:
    Work(std::span<const Call> calls, int group_rank, int size, const Label& label)
        : label(label), calls_(calls.begin(), calls.end()) {
        for (auto& call : calls_) {
            const auto n = static_cast<std::size_t>(size);
            if (call.in_counts) call.in_counts = copy(call.in_counts, n);
            if (call.out_counts) call.out_counts = copy(call.out_counts, n);
            call.in = reads(call, group_rank) ? behind(call.in, call.in_bytes(), call.in_space) : nullptr;
            call.out =
                writes(call, group_rank) ? behind(call.out, call.out_bytes(), call.out_space) : nullptr;
            call.in_space = call.out_space = rankmesh::Space::host;
            call.stream = {};
        }
    }

    const std::vector<Call>& calls() const { return calls_; }
    /// Notes a fault if memory is gone that the device is about to use, or has just used.
    void check_memory() const {
        for (const auto& each : memory_)
            if (!each->is_live()) fault(cat(to_string(calls_.front()), " used memory that was freed"));
    }

    const Label& label;  // of a seat: it lives as long as the channel
    Queue* stream = nullptr;
    std::shared_ptr<Event> ready = nullptr;                            // the stream has reached it
    const std::shared_ptr<Event> begun = std::make_shared<Event>();    // peers can see it
    const std::shared_ptr<Event> limited = std::make_shared<Event>();  // `timeout` is known
    const std::shared_ptr<Event> over = std::make_shared<Event>();     // it has let go of its memory
    Duration timeout = {};                                             // written before `limited`
    std::exception_ptr error = nullptr;                                // written before `over`

private:
    const std::size_t* copy(const std::size_t* counts, std::size_t n) {
        return counts_.emplace_back(counts, counts + n).data();
    }
    /// Where the engine that stands in for the device finds a buffer.
    char* behind(const void* address, std::size_t bytes, rankmesh::Space space) {
        if (bytes == 0) return nullptr;
        if (space != rankmesh::Space::device)
            throw std::logic_error("the device was given the host's memory");
        memory_.push_back(allocation_of(address, bytes));
        return memory_.back()->behind(address);
    }

    std::vector<Call> calls_;
    std::vector<std::shared_ptr<Allocation>> memory_ = {};
    std::deque<std::vector<std::size_t>> counts_ = {};
};

/// One group on the device: its calls run one after the other in the order in which they were made, as they
/// do on one NCCL communicator, each once its stream has come to it.
class DeviceChannel final : public Channel {
public:
    /// `host` is its own: nobody else calls it.
    DeviceChannel(std::shared_ptr<Channel> host, int rank, int group_rank, int size, Queue& null,
                  std::shared_ptr<Counts> counts)
        : host_(std::move(host)),
          rank_(rank),
          group_rank_(group_rank),
          size_(size),
          null_(null),
          counts_(std::move(counts)) {}

    void run(const Call& call, const Label& label, Duration timeout) override {
        const auto ticket = start({&call, 1}, label);
        wait(ticket, label, timeout);
        forget(ticket);
    }

    std::uint64_t start(std::span<const Call> calls, const Label& label) override {
        throw_failure();
        auto work = std::make_shared<Work>(calls, group_rank_, size_, label);
        work->stream = &queue_of(calls.front().stream, null_);
        for (const auto& call : calls)
            if (call.stream != calls.front().stream) throw std::logic_error("one start is on two streams");
        work->ready = work->stream->record();
        counts_->handed_over.push_back(calls.size());
        const auto lock = std::lock_guard(mutex_);
        std::erase_if(flying_, [](const auto& each) { return each->over->happened(); });
        flying_.push_back(work);
        works_[++tickets_] = work;
        queue_.put([this, work] { execute(*work); });
        return tickets_;
    }

    void wait(std::uint64_t ticket, const Label&, Duration timeout) override {
        const auto work = work_of(ticket);
        limit(*work, timeout);
        work->stream->wait(work->over);
        try {
            if (!work->over->happened())
                throw_failure();
            else if (work->error)
                std::rethrow_exception(work->error);
        } catch (...) {
            finish(ticket, *work);
            throw;
        }
    }

    void synchronize(std::uint64_t ticket, const Label&, Duration timeout) override {
        const auto work = work_of(ticket);
        limit(*work, timeout);
        // Once it has begun, the engine behind it keeps the timeout, and knows who is missing.
        if (!work->begun->wait_until(from_now(timeout)))
            give_up(std::make_exception_ptr(rankmesh::Timeout(
                cat("the timeout of ", rankmesh::detail::to_text(timeout), " expired on rank ", rank_, " in ",
                    to_string(work->calls().front()), " on ", work->label.text(),
                    ", which its stream has not come to: missing ", rank_),
                {}, {rank_})));
        finish(ticket, *work);
        if (work->error) std::rethrow_exception(work->error);
    }

    bool done(std::uint64_t ticket) override { return work_of(ticket)->over->happened(); }

    void forget(std::uint64_t ticket) noexcept override {
        const auto lock = std::lock_guard(mutex_);
        works_.erase(ticket);
    }

    void leave(std::uint64_t ticket, const Label& label) noexcept override {
        const auto work = work_of(ticket);
        if (!work->over->happened())
            give_up(std::make_exception_ptr(
                rankmesh::PeerLost(cat("rank ", rank_, " left by an exception with a pending ",
                                       to_string(work->calls().front()), " on ", label.text()),
                                   {rank_})));
        finish(ticket, *work);
    }

    void leave() noexcept override {
        give_up(std::make_exception_ptr(
            rankmesh::PeerLost(cat("rank ", rank_, " left by an exception"), {rank_})));
    }

private:
    /// On the queue's thread: one work, from its stream's turn to its end.
    void execute(Work& work) {
        work.ready->wait();
        try {
            throw_failure();
            work.check_memory();
            const auto ticket = host_->start(work.calls(), work.label);
            work.begun->happen();
            // No timeout is known before somebody waits.
            while (!host_->done(ticket) &&
                   !work.limited->wait_until(from_now(std::chrono::milliseconds(1)))) {
            }
            host_->wait(ticket, work.label, work.limited->happened() ? work.timeout : Duration::max());
            work.check_memory();
        } catch (...) {
            work.error = std::current_exception();
            give_up(work.error);
        }
        work.begun->happen();
        work.over->happen();
    }

    /// Waits until the device has let go of the memory of a work that is complete, or about to fail.
    void finish(std::uint64_t ticket, const Work& work) {
        work.over->wait();
        forget(ticket);
    }

    static void limit(Work& work, Duration timeout) {
        if (work.limited->happened()) return;
        work.timeout = timeout;
        work.limited->happen();
    }

    /// The first error is that of every later call; peers hear of it, and what waits for a stream waits no
    /// longer.
    void give_up(std::exception_ptr error) noexcept {
        const auto lock = std::lock_guard(mutex_);
        if (!failure_) failure_ = std::move(error);
        host_->leave();
        for (const auto& work : flying_) work->ready->happen();
    }

    void throw_failure() const {
        const auto lock = std::lock_guard(mutex_);
        if (failure_) std::rethrow_exception(failure_);
    }

    std::shared_ptr<Work> work_of(std::uint64_t ticket) const {
        const auto lock = std::lock_guard(mutex_);
        return works_.at(ticket);
    }

    const std::shared_ptr<Channel> host_;
    const int rank_;  // in the world
    const int group_rank_;
    const int size_;
    Queue& null_;
    const std::shared_ptr<Counts> counts_;
    mutable std::mutex mutex_;
    std::exception_ptr failure_;
    std::map<std::uint64_t, std::shared_ptr<Work>> works_;  // by ticket
    std::uint64_t tickets_ = 0;
    std::vector<std::shared_ptr<Work>> flying_;  // may have begun, and may not be over
    Queue queue_;                                // last: its thread uses the others
};

/// Creates channels as NCCL does: at join by splitting a communicator of all ranks, at prepare from what the
/// members tell each other.
class Engine final : public rankmesh::detail::DeviceEngine {
public:
    Engine(rankmesh::detail::Exchange& exchange, Duration timeout)
        : exchange_(exchange), timeout_(timeout), counts_(std::make_shared<Counts>()) {}

    ~Engine() override {
        for (const auto& channel : channels_)
            if (!channel.expired()) fault("the engine is gone before one of its channels");
    }

    std::shared_ptr<Channel> create(const ChannelRequest* request, const std::shared_ptr<Channel>& host,
                                    bool everyone) override {
        ++counts_->creations;
        if (!request && !everyone) throw std::logic_error("a rank without a part was asked to prepare");
        if (!request && host) throw std::logic_error("a rank without a part was given a host channel");
        everyone ? split(request) : exchange_id(*request, *host);
        if (!request) return nullptr;
        ++counts_->channels;
        const auto own = ChannelRequest{.label = request->label,
                                        .group_rank = request->group_rank,
                                        .key = cat(request->key, " on the device"),
                                        .item = request->item};
        return made(exchange_.create(own), request->group_rank, request->label->ranks.size());
    }

    std::shared_ptr<Channel> alone() override {
        return made(std::make_shared<rankmesh::detail::Alone>(), 0, 1);
    }

    /// This rank goes: no queue of its channels may wait any longer.
    void leave() noexcept {
        for (const auto& each : channels_)
            if (const auto channel = each.lock()) channel->leave();
    }

    Queue& null() { return null_; }
    const Counts& counts() const { return *counts_; }

private:
    /// What a rank sends the others about one creation.
    struct Creation {
        std::int64_t turn = 0;
        std::int64_t item = -1;  // -1: no part in it
        std::int64_t colour = -1;
        std::int64_t group_rank = -1;
    };

    std::shared_ptr<Channel> made(std::shared_ptr<Channel> host, int group_rank, int size) {
        auto channel = std::make_shared<DeviceChannel>(std::move(host), exchange_.rank(), group_rank, size,
                                                       null_, counts_);
        channels_.push_back(channel);
        return channel;
    }

    std::vector<Creation> gathered(const Creation& mine, Channel& over, const Label& label) const {
        auto all = std::vector<Creation>(static_cast<std::size_t>(label.ranks.size()));
        over.run({.operation = Operation::all_gather,
                  .dtype = rankmesh::DType::byte,
                  .in = &mine,
                  .out = all.data(),
                  .in_count = sizeof mine,
                  .out_count = sizeof mine * all.size()},
                 label, timeout_);
        return all;
    }

    /// What ncclCommSplit demands: all ranks call it as often and in one order, and those of one colour are
    /// one group, in the order of their group ranks.
    void split(const ChannelRequest* request) {
        if (!world_) {
            world_label_ = std::make_shared<const Label>(
                Label{.mesh = "world",
                      .name = {},
                      .axes = "device",
                      .member = {},
                      .ranks = {rankmesh::Mesh{{"world", exchange_.size()}}.group(0, "world")}});
            world_ = exchange_.create({.label = world_label_,
                                       .group_rank = exchange_.rank(),
                                       .key = "the device of all ranks",
                                       .item = 0});
        }
        auto mine = Creation{.turn = ++turns_};
        if (request) mine = {turns_, request->item, request->label->ranks[0], request->group_rank};
        const auto all = gathered(mine, *world_, *world_label_);
        auto members = std::map<std::int64_t, int>{};  // by group rank
        for (std::size_t rank = 0; rank < all.size(); ++rank) {
            const auto& each = all[rank];
            if (each.turn != mine.turn || (each.item >= 0 && mine.item >= 0 && each.item != mine.item))
                throw std::logic_error("ranks create different items of a plan on the device at once");
            if (request && each.colour == mine.colour &&
                !members.emplace(each.group_rank, static_cast<int>(rank)).second)
                throw std::logic_error("two ranks have one group rank in a group on the device");
        }
        if (!request) return;
        auto ranks = std::vector<int>{};
        for (const auto& [group_rank, rank] : members) ranks.push_back(rank);
        if (ranks != request->label->ranks.list())
            throw std::logic_error("the ranks of one colour are not the group on the device");
    }

    /// What a unique id takes: group rank 0 can tell the others something over the host's channel.
    void exchange_id(const ChannelRequest& request, Channel& host) const {
        const auto all =
            gathered({0, request.item, request.label->ranks[0], request.group_rank}, host, *request.label);
        for (std::size_t i = 0; i < all.size(); ++i)
            if (all[i].item != request.item || all[i].group_rank != static_cast<std::int64_t>(i))
                throw std::logic_error("the members prepare different items on the device at once");
    }

    rankmesh::detail::Exchange& exchange_;
    const Duration timeout_;
    std::shared_ptr<Counts> counts_;
    Queue null_;
    std::shared_ptr<const Label> world_label_;
    std::shared_ptr<Channel> world_;
    std::int64_t turns_ = 0;
    std::vector<std::weak_ptr<Channel>> channels_;
};

}  // namespace

/// The host's world, and a device beside it.
class State final : public rankmesh::detail::WorldState {
public:
    explicit State(std::shared_ptr<WorldState> host)
        : WorldState(host->options), host_(std::move(host)), engine_(host_->exchange(), options.timeout) {
        WorldState::record_in(host_->recorder(), host_->roots());
        joins = 1'000'000;  // apart from those of the host's world, whose channels have keys like ours
    }

    std::string engine() const override { return host_->engine(); }
    rankmesh::detail::Exchange& exchange() override { return host_->exchange(); }
    void record_in(std::shared_ptr<rankmesh::detail::Recorder> recorder,
                   std::shared_ptr<const std::vector<int>> roots) override {
        if (host_->recorder() != recorder) host_->record_in(recorder, roots);
        WorldState::record_in(std::move(recorder), std::move(roots));
    }
    void leave(const std::string& what) noexcept override {
        host_->leave(what);
        engine_.leave();
    }
    std::shared_ptr<WorldState> sub(const std::vector<int>& ranks) override {
        return std::make_shared<State>(host_->sub(ranks));
    }
    std::shared_ptr<WorldState> survivors(Duration grace) override {
        return std::make_shared<State>(host_->survivors(grace));
    }
    std::shared_ptr<WorldState> grow(int most, Duration timeout) override {
        return std::make_shared<State>(host_->grow(most, timeout));
    }
    std::string host() override { return host_->host(); }
    rankmesh::detail::DeviceEngine* device() override { return &engine_; }

    Engine& fake() { return engine_; }

private:
    std::shared_ptr<WorldState> host_;
    Engine engine_;
};

}  // namespace detail

World::World(rankmesh::World& host)
    : World(std::make_shared<detail::State>(rankmesh::detail::Access::state(host))) {}
World::World(std::shared_ptr<detail::State> state) : rankmesh::World(state), fake_(std::move(state)) {}

Queue& World::queue() { return fake_->fake().null(); }
Counts World::counts() const { return fake_->fake().counts(); }

}  // namespace fake
