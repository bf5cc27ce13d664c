// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/open_store.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/host_addresses.hpp"
#include "engine/store/file_store.hpp"
#include "engine/store/redis_store.hpp"
#include "engine/store/tcp_store.hpp"
#include "engine/store/url.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool is_served_by_ranks(const RendezvousConfig& config) { return config.store.starts_with("tcp:"); }

/// Makes an attempt; returns why it failed, "" otherwise.
template <class Attempt>
std::string failure_of(const Attempt& attempt) {
    try {
        attempt();
        return {};
    } catch (const EngineFailure& error) {
        return error.what();
    } catch (const Timeout& error) {
        return error.what();
    }
}

}  // namespace

std::shared_ptr<Store> open_store(const RendezvousConfig& config, bool first, Store::Instant until) {
    if (config.size == 1) return nullptr;
    if (is_served_by_ranks(config)) {
        const auto urls = TcpUrls::parse(config.store);
        if (first && urls.second) return failover_store(urls, config.job, config.rank, config.size, until);
        return tcp_store(urls.first, config.job, config.rank, config.size, config.job_is_secret);
    }
    if (is_url(config.store)) return redis_store(RedisUrl::parse(config.store), config.job);
    return std::make_shared<FileStore>(config.store, config.job);
}

std::shared_ptr<Store> open_store_to_enter(const RendezvousConfig& config, Store::Instant until) {
    if (!is_served_by_ranks(config)) return open_store(config, false, until);
    const auto urls = TcpUrls::parse(config.store);
    // It never serves, whatever place it asks for.
    const auto rank = std::max(config.rank, 1);
    if (urls.second) return failover_store_to_enter(urls, config.job, rank, until);
    return tcp_store(urls.first, config.job, rank, config.size);
}

std::shared_ptr<FailoverStore> failover_store(const TcpUrls& urls, const std::string& job, int rank, int size,
                                              Store::Instant until) {
    auto first = tcp_store(urls.first, job, rank, size);
    auto options =
        TcpStoreOptions{.url = *urls.second, .job = job, .rank = rank, .size = size, .is_second = true};
    auto why_not_served = std::string{};
    const auto runs_here = [&] {
        try {
            return std::ranges::any_of(host_addresses(options.url.host, until), is_own_address);
        } catch (const std::exception&) {  // no rank serves it, if all fail
            return false;
        }
    };
    try {
        if (size > 0 && rank != 0 && runs_here()) options.server = options.serve();
    } catch (const UsageError& error) {
        why_not_served = error.what();
    }
    return std::make_shared<FailoverStore>(
        std::move(first), FailoverStore::Second{.store = tcp_store(options),
                                                .name = cat("the second store '", urls.second->text(), "'"),
                                                .why_not_served = std::move(why_not_served)});
}

std::shared_ptr<Store> failover_store_to_enter(const TcpUrls& urls, const std::string& job, int rank,
                                               Store::Instant until) {
    const auto begin = Clock::now();
    auto longest = milliseconds(500);
    auto why = std::string{};
    for (auto pause = milliseconds(4);; pause = std::min(pause * 3 / 2, milliseconds(250)),
              longest = std::min(longest * 2, milliseconds(8000))) {
        const auto soon = [&] { return std::min(until, Clock::now() + longest); };
        const auto stores = failover_store(urls, job, rank, 0, until);
        auto seen = failure_of([&] {
            stores->first()->ping(soon());
            static_cast<void>(stores->get({failed_over}, soon()));  // connects
        });
        if (seen.empty()) return stores;
        const auto second = stores->second();
        auto ready = false;
        const auto seen_of_second = failure_of([&] {
            second->ping(soon());
            ready = second->get({failed_over}, soon()).front().has_value();
        });
        if (ready) return second;
        append(seen, cat("; ", stores->second_name(),
                         seen_of_second.empty() ? " is served, and no rank has gone over to it"
                                                : cat(": ", seen_of_second)));
        const auto now = Clock::now();
        // If the timeout cut this attempt short, the attempt before says more.
        if (now < until || why.empty()) why = std::move(seen);
        if (now >= until)
            throw Timeout(cat("the timeout expired: this process has found no store of the job '", job,
                              "' to enter it by for ", std::chrono::round<milliseconds>(now - begin).count(),
                              " ms: ", why),
                          {}, {});
        std::this_thread::sleep_until(std::min(until, now + pause));
    }
}

}  // namespace rankmesh::detail
