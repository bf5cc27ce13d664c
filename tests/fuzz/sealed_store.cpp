// SPDX-License-Identifier: Apache-2.0
// An entry of a store: it comes back as a rank has written it, or is refused.
#include "engine/store/sealed_store.hpp"

#include <map>

#include "law.hpp"

namespace {

using namespace rankmesh;

/// One process's memory.
class MemoryStore final : public detail::Store {
public:
    bool set(const std::string& name, const std::string& text, Instant) override {
        return entries.emplace(name, text).second;
    }
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names, Instant) override {
        auto found = std::vector<std::optional<std::string>>{};
        for (const auto& name : names)
            found.push_back(entries.contains(name) ? std::optional(entries.at(name)) : std::nullopt);
        return found;
    }
    void remove(const std::vector<std::string>&, Instant) noexcept override {}
    std::chrono::microseconds longest_pause() const override { return {}; }
    std::string text() const override { return "the store 'memory'"; }
    const std::string& job() const override { return job_; }

    std::map<std::string, std::string> entries;

private:
    const std::string job_ = "job";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto given = std::string(fuzz::bytes_of(data, size));
    const auto memory = std::make_shared<MemoryStore>();
    auto store = detail::SealedStore(memory);
    memory->entries["foreign"] = given;
    store.set("own", given, {});
    fuzz::require(store.get({"own"}, {}).front() == given, "what a rank writes is read again");
    fuzz::read_or_refuse<EngineFailure>([&] {
        const auto text = store.get({"foreign"}, {}).front();
        memory->entries.erase("foreign");
        store.set("foreign", *text, {});
        fuzz::require(memory->entries["foreign"] == given, "only what a rank has written is read");
    });
    return 0;
}
