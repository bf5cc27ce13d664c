// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/store/store.hpp"

namespace support {

/// Entries that all ranks share.
struct Entries {
    std::mutex mutex;
    std::map<std::string, std::string> texts;
};

struct Died {};

/// One rank's way to the entries; the rank dies at its `last` use of it, and each takes up to `slow`.
class DyingStore final : public rankmesh::detail::Store {
public:
    DyingStore(Entries& entries, int last, std::chrono::milliseconds slow, unsigned seed)
        : entries_(entries), left_(last), slow_(slow), random_(seed) {}
    bool set(const std::string& name, const std::string& text, Instant) override {
        use();
        const auto lock = std::lock_guard(entries_.mutex);
        return entries_.texts.emplace(name, text).second;
    }
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names, Instant) override {
        use();
        read_ += names.size();
        const auto lock = std::lock_guard(entries_.mutex);
        auto texts = std::vector<std::optional<std::string>>{};
        for (const auto& name : names) {
            const auto found = entries_.texts.find(name);
            texts.push_back(found == entries_.texts.end() ? std::nullopt : std::optional(found->second));
        }
        return texts;
    }
    void remove(const std::vector<std::string>& names, Instant) noexcept override {
        if (dead_) return;
        const auto lock = std::lock_guard(entries_.mutex);
        for (const auto& name : names) entries_.texts.erase(name);
    }
    std::chrono::microseconds longest_pause() const override { return std::chrono::milliseconds(4); }
    std::string text() const override { return "memory"; }
    const std::string& job() const override { return job_; }
    std::size_t read() const { return read_; }

private:
    void use() {
        if (dead_ || left_-- == 0) {
            dead_ = true;
            throw Died{};
        }
        if (slow_.count() > 0)  // the laws hold for any times that uses take
            std::this_thread::sleep_for(static_cast<int>(random_() % 1000) *
                                        std::chrono::microseconds(slow_) / 1000);
    }
    Entries& entries_;
    int left_;
    bool dead_ = false;
    std::chrono::milliseconds slow_;
    std::mt19937 random_;
    std::size_t read_ = 0;
    std::string job_ = "job";
};

}  // namespace support
