// SPDX-License-Identifier: Apache-2.0
#include "engine/fork.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace rankmesh::detail {
namespace {

struct Kept {
    std::mutex mutex;
    std::vector<const int*> descriptors;
    OfOneProcess* first = nullptr;
};

/// Never destroyed: a process may fork while it ends.
Kept& kept() {
    static auto* const kept = new Kept;
    return *kept;
}

void before_fork() {
    process_mutex().lock();
    kept().mutex.lock();
}
void unlock_both() {
    kept().mutex.unlock();
    process_mutex().unlock();
}

}  // namespace

/// Calls only what a child may call whose process had several threads. The numbers stay taken, since the
/// child has copies of the objects that would close them.
void in_child() {
    const auto nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const auto* descriptor : kept().descriptors) {
        struct stat status {};
        // Another thread of the parent may have been closing it.
        if (*descriptor < 0 || fstat(*descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
        if (nothing < 0 || dup3(nothing, *descriptor, O_CLOEXEC) < 0) close(*descriptor);
    }
    if (nothing >= 0) close(nothing);
    for (auto* each = kept().first; each; each = each->next_) {
        each->is_foreign_ = true;
        each->enter_child();
        each->kept_ = each->weak_from_this().lock();
    }
    unlock_both();
}

static void watch_forks() {
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(before_fork, unlock_both, in_child); });
}

std::mutex& process_mutex() {
    watch_forks();
    static auto* const mutex = new std::mutex;
    return *mutex;
}

OfOneProcess::OfOneProcess() {
    watch_forks();
    const auto lock = std::lock_guard(kept().mutex);
    next_ = std::exchange(kept().first, this);
    if (next_) next_->previous_ = this;
}

OfOneProcess::~OfOneProcess() {
    const auto lock = std::lock_guard(kept().mutex);
    (previous_ ? previous_->next_ : kept().first) = next_;
    if (next_) next_->previous_ = previous_;
}

ClosedOnFork::ClosedOnFork(const int& descriptor) : descriptor_(descriptor) {
    watch_forks();
    const auto lock = std::lock_guard(kept().mutex);
    kept().descriptors.push_back(&descriptor_);
}

ClosedOnFork::~ClosedOnFork() {
    const auto lock = std::lock_guard(kept().mutex);
    std::erase(kept().descriptors, &descriptor_);
}

}  // namespace rankmesh::detail
