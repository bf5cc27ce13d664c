// SPDX-License-Identifier: Apache-2.0
// A device that is only fake: memory that the host cannot read, queues that order work on it, and an
// engine that has the shape of NCCL's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <rankmesh/engine/world.hpp>

namespace fake {

/// What was done wrong with the device since the last time that this was asked, a line each.
std::vector<std::string> take_faults();

/// One piece of the device's memory: its address is one that the host cannot read, what it holds lies
/// elsewhere.
class Allocation {
public:
    explicit Allocation(std::size_t bytes);

    char* address() const { return address_; }
    std::size_t bytes() const { return bytes_; }
    /// Where the bytes at a device address lie on the host: for those who work as the device does.
    char* behind(const void* address) { return held_.get() + (static_cast<const char*>(address) - address_); }

    /// What uses it after this commits a fault.
    void free() { live_.store(false, std::memory_order_relaxed); }
    /// Relaxed, so that asking orders nothing and a sanitizer still sees a race.
    bool is_live() const { return live_.load(std::memory_order_relaxed); }

private:
    std::size_t bytes_;
    char* address_;
    std::unique_ptr<char[]> held_;
    std::atomic<bool> live_ = true;
};

/// Makes an allocation that the engine will know by its address.
std::shared_ptr<Allocation> allocate(std::size_t bytes);
/// The allocation that holds all of these bytes; throws std::logic_error where none that lives does.
std::shared_ptr<Allocation> allocation_of(const void* address, std::size_t bytes);

/// Copies to the device, and from it; like the device, it waits for nothing that is under way.
void upload(void* device, const void* host, std::size_t bytes);
void download(void* host, const void* device, std::size_t bytes);

/// Elements on the device, and who owns them.
template <class T>
requires std::is_trivially_copyable_v<T>
class Array {
public:
    explicit Array(std::size_t size, T each = {}) : Array(std::vector<T>(size, each)) {}
    explicit Array(const std::vector<T>& values)
        : memory_(allocate(values.size() * sizeof(T))), size_(values.size()) {
        upload(memory_->address(), values.data(), memory_->bytes());
    }
    ~Array() {
        if (memory_) memory_->free();
    }
    Array(Array&&) noexcept = default;
    Array& operator=(Array&&) = delete;

    /// What a collective is given.
    rankmesh::Memory<T> operator*() const { return {reinterpret_cast<T*>(memory_->address()), size_}; }
    /// A copy of what it holds now.
    std::vector<T> values() const {
        auto values = std::vector<T>(size_);
        download(values.data(), memory_->address(), memory_->bytes());
        return values;
    }
    /// A task for a queue: `change` of each element, on the device.
    auto each(std::function<T(T)> change) const {
        return [memory = memory_, size = size_, change = std::move(change)] {
            auto* elements = reinterpret_cast<T*>(memory->behind(memory->address()));
            for (std::size_t i = 0; i < size; ++i) elements[i] = change(elements[i]);
        };
    }

private:
    std::shared_ptr<Allocation> memory_;  // null: moved from
    std::size_t size_;
};

/// Something that happens once, and stays so.
class Event {
public:
    void happen();
    bool happened() const;
    void wait() const;
    /// False if the time has passed before it happened.
    bool wait_until(std::chrono::steady_clock::time_point time) const;

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool happened_ = false;
};

/// A stream: its tasks run in order, on a thread of its own.
class Queue {
public:
    Queue();
    /// Returns once all tasks have run.
    ~Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    /// What a communicator is ordered on it by.
    rankmesh::Stream stream() { return {this}; }
    void put(std::function<void()> task);
    /// Happens once all that was put before has run.
    std::shared_ptr<Event> record();
    /// What is put after this runs after the event.
    void wait(std::shared_ptr<Event> event);
    /// Blocks the host until all that was put before has run.
    void synchronize() { record()->wait(); }

private:
    void work();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    bool ending_ = false;
    std::thread worker_;
};

/// What the engine of one rank was asked to do.
struct Counts {
    int creations = 0;                          // calls of create
    int channels = 0;                           // of those, with a part for this rank
    std::vector<std::size_t> handed_over = {};  // the number of calls in each start, in order
};

namespace detail {
class State;
}

/// A world with a fake device on every rank, beside the engine of `host`.
class World : public rankmesh::World {
public:
    explicit World(rankmesh::World& host);

    /// The queue of calls on no other, the null stream's.
    Queue& queue();
    Counts counts() const;

private:
    explicit World(std::shared_ptr<detail::State> state);

    std::shared_ptr<detail::State> fake_;
};

}  // namespace fake
