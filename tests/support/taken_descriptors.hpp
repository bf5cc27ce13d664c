// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace support {

/// Takes all descriptors that this process may open but for `left`.
class TakenDescriptors {
public:
    explicit TakenDescriptors(std::size_t left) {
        getrlimit(RLIMIT_NOFILE, &before_);
        auto limits = before_;
        limits.rlim_cur = 256;
        setrlimit(RLIMIT_NOFILE, &limits);
        for (auto next = open("/dev/null", O_RDONLY | O_CLOEXEC); next >= 0;
             next = open("/dev/null", O_RDONLY | O_CLOEXEC))
            taken_.push_back(next);
        give_back(left);
    }
    ~TakenDescriptors() {
        give_back(taken_.size());
        setrlimit(RLIMIT_NOFILE, &before_);
    }
    TakenDescriptors(const TakenDescriptors&) = delete;
    TakenDescriptors& operator=(const TakenDescriptors&) = delete;
    void give_back(std::size_t count) {
        for (; count > 0 && !taken_.empty(); --count, taken_.pop_back()) close(taken_.back());
    }

private:
    rlimit before_ = {};
    std::vector<int> taken_;
};

}  // namespace support
