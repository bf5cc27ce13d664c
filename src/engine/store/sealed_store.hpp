// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <rankmesh/core/error.hpp>

#include "engine/hash.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// A decorator of a store that detects damaged entries: each begins with a hash of its name and text.
class SealedStore final : public Store {
public:
    explicit SealedStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

    bool set(const std::string& name, const std::string& text, Instant until) override {
        return store_->set(name, seal(name, text) + text, until);
    }
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override {
        return unsealed(names, store_->get(names, until));
    }
    std::vector<std::optional<std::string>> wait(const std::vector<std::string>& names, Instant longest,
                                                 Instant until) override {
        return unsealed(names, store_->wait(names, longest, until));
    }
    bool can_wait() const override { return store_->can_wait(); }
    void remove(const std::vector<std::string>& names, Instant until) noexcept override {
        store_->remove(names, until);
    }
    std::chrono::microseconds longest_pause() const override { return store_->longest_pause(); }
    std::string text() const override { return store_->text(); }
    const std::string& job() const override { return store_->job(); }

private:
    std::vector<std::optional<std::string>> unsealed(const std::vector<std::string>& names,
                                                     std::vector<std::optional<std::string>> entries) const {
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (!entries[i]) continue;
            const auto end = std::min(entries[i]->find('\n'), entries[i]->size() - 1) + 1;
            auto text = entries[i]->substr(end);
            if (entries[i]->compare(0, end, seal(names[i], text)) != 0)
                throw EngineFailure(cat("the entry '", names[i], "' of the job '", job(), "' in ",
                                        store_->text(),
                                        " is damaged, or of another version of rankmesh; start the job again "
                                        "under another id, such as RANKMESH_JOB=$(uuidgen)"));
            entries[i] = std::move(text);
        }
        return entries;
    }
    static std::string seal(const std::string& name, const std::string& text) {
        return cat("rankmesh 1 ", hash(text, hash(name)), "\n");
    }

    const std::shared_ptr<Store> store_;
};

}  // namespace rankmesh::detail
