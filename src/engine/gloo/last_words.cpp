// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/last_words.hpp"

#include <gloo/common/error.h>
#include <gloo/common/logging.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/gloo/lookout.hpp"

namespace rankmesh::detail {
namespace {

struct Lookouts {
    std::timed_mutex mutex;
    std::vector<const Lookout*> all;
    std::terminate_handler next = nullptr;
};

/// Never destroyed: the process may end while others do.
Lookouts& lookouts() {
    static auto* const lookouts = new Lookouts;
    return *lookouts;
}

/// What Gloo threw, "" if something else ends the process.
std::string thrown_by_gloo() {
    const auto thrown = std::current_exception();
    if (!thrown) return {};
    try {
        std::rethrow_exception(thrown);
    } catch (const ::gloo::EnforceNotMet& error) {
        return error.what();
    } catch (const ::gloo::Exception& error) {
        return error.what();
    } catch (...) {
        return {};
    }
}

void say_last_words() {
    auto& known = lookouts();
    if (auto reason = thrown_by_gloo(); !reason.empty()) {
        reason.erase(std::min(reason.find_last_not_of(" \n") + 1, reason.size()));
        auto waits = std::string{};
        // Whoever holds it lets go soon, unless it is what ends.
        if (const auto lock = std::unique_lock(known.mutex, std::chrono::seconds(1)))
            for (const auto* lookout : known.all) append(waits, lookout->last_words());
        const auto text =
            cat("rankmesh: Gloo ends this process on a thread of its own: ", reason, "\n",
                waits.empty() ? "  no call was being waited for; one that was started went wrong\n" : waits,
                "  the members of a group probably gave it other lengths, types or operations; start "
                "all ranks with RANKMESH_CHECK=1 to hear who differs\n");
        std::fputs(text.c_str(), stderr);
        std::fflush(stderr);
    }
    if (known.next) known.next();
    std::abort();
}

}  // namespace

void install_last_words() {
    static std::once_flag once;
    std::call_once(once, [] { lookouts().next = std::set_terminate(say_last_words); });
}

void add_last_words(const Lookout& lookout) {
    const auto lock = std::lock_guard(lookouts().mutex);
    lookouts().all.push_back(&lookout);
}

void remove_last_words(const Lookout& lookout) noexcept {
    const auto lock = std::lock_guard(lookouts().mutex);
    std::erase(lookouts().all, &lookout);
}

}  // namespace rankmesh::detail
