// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/monitor/terminate_handler.hpp"

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

#include "engine/gloo/monitor/peer_monitor.hpp"

namespace rankmesh::detail {
namespace {

struct PeerMonitors {
    std::timed_mutex mutex;
    std::vector<const PeerMonitor*> all;
    std::terminate_handler next = nullptr;
};

/// Never destroyed: other threads may end the process meanwhile.
PeerMonitors& monitors() {
    static auto* const monitors = new PeerMonitors;
    return *monitors;
}

/// The text of Gloo's exception, "" if something else ends the process.
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

void report_and_abort() {
    auto& known = monitors();
    if (auto reason = thrown_by_gloo(); !reason.empty()) {
        reason.erase(std::min(reason.find_last_not_of(" \n") + 1, reason.size()));
        auto waits = std::string{};
        // Another holder releases it soon, unless it is the thread that terminates.
        if (const auto lock = std::unique_lock(known.mutex, std::chrono::seconds(1)))
            for (const auto* monitor : known.all) append(waits, monitor->terminate_report());
        const auto text = cat("rankmesh: Gloo ends this process on a thread of its own: ", reason, "\n",
                              waits.empty() ? "  no call of rankmesh was waiting: a call that was started "
                                              "failed, or a group of PyTorch's own\n"
                                            : waits);
        std::fputs(text.c_str(), stderr);
        std::fflush(stderr);
    }
    if (known.next) known.next();
    std::abort();
}

}  // namespace

void install_terminate_handler() {
    static std::once_flag once;
    std::call_once(once, [] { monitors().next = std::set_terminate(report_and_abort); });
}

void add_to_terminate_report(const PeerMonitor& monitor) {
    const auto lock = std::lock_guard(monitors().mutex);
    monitors().all.push_back(&monitor);
}

void remove_from_terminate_report(const PeerMonitor& monitor) noexcept {
    const auto lock = std::lock_guard(monitors().mutex);
    std::erase(monitors().all, &monitor);
}

}  // namespace rankmesh::detail
