// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>

namespace rankmesh::detail {

/// The lock of what a process has once. It is held while the process forks: a child never finds it taken by a
/// thread that it does not have. Who holds it waits for no other thread.
std::mutex& process_mutex();

/// A descriptor of a connection that a child which this process forks does not keep: else peers would not
/// notice that this process has ended as long as the child lives.
class ClosedOnFork {
public:
    /// `descriptor` is where its number stands, less than 0 while there is none.
    explicit ClosedOnFork(const int& descriptor);
    ~ClosedOnFork();
    ClosedOnFork& operator=(ClosedOnFork&&) = delete;

private:
    const int& descriptor_;
};

/// A part of a rank, with threads, locks or connections, none of which is in a child that the process forks:
/// there it is never destroyed, since its destructor would wait for them.
class OfOneProcess : public std::enable_shared_from_this<OfOneProcess> {
public:
    OfOneProcess();
    virtual ~OfOneProcess();
    OfOneProcess& operator=(OfOneProcess&&) = delete;

    /// True in such a child.
    bool is_foreign() const { return is_foreign_; }
    /// Called in such a child, where no more may be called than in a signal handler.
    virtual void enter_child() noexcept {}

private:
    friend void in_child();
    bool is_foreign_ = false;
    std::shared_ptr<OfOneProcess> kept_ = nullptr;  // itself, in a child
    OfOneProcess* previous_ = nullptr;              // in the list of all
    OfOneProcess* next_ = nullptr;
};

}  // namespace rankmesh::detail
