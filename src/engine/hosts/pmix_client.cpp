// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/pmix_client.hpp"

#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include <rankmesh/core/error.hpp>

#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

/// One answer of the server, delivered on PMIx's thread. The waiting thread may give up first: PMIx's own
/// timeouts are whole seconds, so an answer may arrive when no thread waits for it.
struct Answer {
    std::mutex mutex;
    std::condition_variable come;
    std::optional<pmix_status_t> status;
    std::string text;

    void give(pmix_status_t said, std::string with = {}) {
        const auto lock = std::lock_guard(mutex);
        status = said;
        text = std::move(with);
        come.notify_all();
    }
    std::optional<pmix_status_t> wait(PmixClient::Instant until) {
        auto lock = std::unique_lock(mutex);
        come.wait_until(lock, until, [&] { return status.has_value(); });
        return status;
    }
};

/// Carries an answer through PMIx's untyped pointers: `box` before a call, `unbox` in what it calls back.
using Shared = std::shared_ptr<Answer>;
void* box(const Shared& answer) { return new Shared(answer); }
Shared unbox(void* data) {
    const auto owner = std::unique_ptr<Shared>(static_cast<Shared*>(data));
    return *owner;
}

void on_fence(pmix_status_t status, void* data) { unbox(data)->give(status); }

void on_entry(pmix_status_t status, pmix_value_t* value, void* data) {
    auto text = std::string{};
    if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT)
        text.assign(value->data.bo.bytes, value->data.bo.size);
    unbox(data)->give(status, std::move(text));
}

[[noreturn]] void throw_failure(const char* what, pmix_status_t status) {
    throw EngineFailure(cat("the PMIx server of this process's launcher: ", what, " failed with ",
                            PMIx_Error_string(status)));
}

class ConnectedClient final : public PmixClient {
public:
    /// `neighbours`: the ranks on this host, as `0,1,2,3`.
    ConnectedClient(const pmix_proc_t& self, int size, const std::string& neighbours)
        : PmixClient(self.nspace, static_cast<int>(self.rank), size),
          neighbours_(cat(",", neighbours, ",")) {}
    ~ConnectedClient() override { PMIx_Finalize(nullptr, 0); }

    void put(const std::string& key, const std::string& text) override {
        auto value = pmix_value_t{};
        value.type = PMIX_BYTE_OBJECT;
        value.data.bo.bytes = const_cast<char*>(text.data());
        value.data.bo.size = text.size();
        const auto status = PMIx_Put(PMIX_GLOBAL, key.c_str(), &value);
        if (status != PMIX_SUCCESS) throw_failure("an entry", status);
    }

    void commit() override {
        const auto status = PMIx_Commit();
        if (status != PMIX_SUCCESS) throw_failure("an entry", status);
    }

    bool fence(std::vector<int> ranks, Instant until) override {
        std::ranges::sort(ranks);
        // The server counts arrivals by the set of ranks alone: a second call would count as another rank's.
        if (const auto open = going_on(ranks))
            if (!open->wait(until)) return false;
        const auto status = begin(ranks)->wait(until);
        if (!status) return false;
        // If ranks have ended the fence is incomplete; the entries that exist show who arrived.
        if (*status != PMIX_SUCCESS && *status != PMIX_ERR_PARTIAL_SUCCESS) throw_failure("a fence", *status);
        return true;
    }

    void begin_fence(std::vector<int> ranks) override {
        std::ranges::sort(ranks);
        if (!going_on(ranks)) begin(ranks);
    }

    std::vector<std::optional<std::string>> read(std::span<const Name> names, Instant until) override {
        return get(names, false, until);
    }
    std::vector<std::optional<std::string>> ask(std::span<const Name> names, Instant until) override {
        return get(names, true, until);
    }

private:
    pmix_proc_t process(int rank) const {
        auto process = pmix_proc_t{};
        PMIX_LOAD_PROCID(&process, name_space().c_str(), static_cast<pmix_rank_t>(rank));
        return process;
    }

    /// The last fence of these ranks, if it is still in progress.
    Shared going_on(const std::vector<int>& ranks) {
        const auto lock = std::lock_guard(mutex_);
        const auto found = fences_.find(ranks);
        return found != fences_.end() && !found->second->wait({}) ? found->second : nullptr;
    }

    Shared begin(const std::vector<int>& ranks) {
        commit();
        auto processes = std::vector<pmix_proc_t>{};
        for (auto rank : ranks) processes.push_back(process(rank));
        auto collect = true;
        auto info = pmix_info_t{};
        PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
        auto answer = std::make_shared<Answer>();
        const auto status =
            PMIx_Fence_nb(processes.data(), processes.size(), &info, 1, on_fence, box(answer));
        if (status != PMIX_SUCCESS) throw_failure("a fence", status);
        const auto lock = std::lock_guard(mutex_);
        fences_[ranks] = answer;
        return answer;
    }

    std::vector<std::optional<std::string>> get(std::span<const Name> names, bool far, Instant until) {
        auto yes = true;
        auto here = pmix_info_t{};  // answers from what the local server has
        PMIX_INFO_LOAD(&here, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
        auto seconds = 1;
        auto there = pmix_info_t{};  // asks the server of the rank's host, for at most this time
        PMIX_INFO_LOAD(&there, PMIX_TIMEOUT, &seconds, PMIX_INT);
        auto answers = std::vector<Shared>{};
        for (const auto& [rank, key] : names) {
            const auto whose = process(rank);
            const auto* how =
                far && neighbours_.find(cat(",", rank, ",")) == std::string::npos ? &there : &here;
            auto& answer = answers.emplace_back(std::make_shared<Answer>());
            const auto status = PMIx_Get_nb(&whose, key.c_str(), how, 1, on_entry, box(answer));
            if (status != PMIX_SUCCESS) answer->give(status);
        }
        auto texts = std::vector<std::optional<std::string>>{};
        for (const auto& answer : answers)
            texts.push_back(answer->wait(until) == PMIX_SUCCESS ? std::optional(answer->text) : std::nullopt);
        return texts;
    }

    const std::string neighbours_;
    std::mutex mutex_;
    std::map<std::vector<int>, Shared> fences_;  // the last of each set of ranks
};

/// Passes the value of a job attribute to `take`, if the server has one.
template <class Take>
void look_up(const pmix_proc_t& self, const char* what, const Take& take) {
    auto job = pmix_proc_t{};
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    auto* value = static_cast<pmix_value_t*>(nullptr);
    if (PMIx_Get(&job, what, nullptr, 0, &value) != PMIX_SUCCESS) return;
    take(*value);
    PMIX_VALUE_RELEASE(value);
}

std::shared_ptr<PmixClient> connect_to_server() {
    auto self = pmix_proc_t{};
    if (PMIx_Init(&self, nullptr, 0) != PMIX_SUCCESS) return nullptr;
    auto size = 0;
    auto neighbours = std::string{};
    look_up(self, PMIX_JOB_SIZE,
            [&](const pmix_value_t& value) { size = static_cast<int>(value.data.uint32); });
    look_up(self, PMIX_LOCAL_PEERS, [&](const pmix_value_t& value) { neighbours = value.data.string; });
    if (size < 1) {
        PMIx_Finalize(nullptr, 0);
        return nullptr;
    }
    return std::make_shared<ConnectedClient>(self, size, neighbours);
}

}  // namespace

bool PmixClient::is_built() { return true; }

std::shared_ptr<PmixClient> PmixClient::of_process(std::chrono::nanoseconds timeout) {
    static auto mutex = std::mutex{};
    static auto connection = std::shared_future<std::shared_ptr<PmixClient>>{};
    const auto* name = std::getenv("PMIX_NAMESPACE");
    auto connecting = [&] {
        const auto lock = std::lock_guard(mutex);
        if (connection.valid()) return connection;
        // PMIx would print that this folder is missing if the launcher has ended.
        const auto* folder = std::getenv("PMIX_SERVER_TMPDIR");
        if (!name || (folder && access(folder, F_OK) != 0)) return connection;
        // PMIx waits for its server without end: a thread waits for PMIx.
        auto connect = std::packaged_task<std::shared_ptr<PmixClient>()>(connect_to_server);
        connection = connect.get_future().share();
        std::thread(std::move(connect)).detach();
        return connection;
    }();
    if (!connecting.valid()) return nullptr;
    if (connecting.wait_until(from_now(timeout)) == std::future_status::timeout)
        throw Timeout(cat("the timeout of ", to_text(timeout), " expired: the PMIx server of '",
                          name ? name : "", "', which started this process, has not answered"),
                      {}, {});
    auto client = connecting.get();
    if (client) return client;
    const auto lock = std::lock_guard(mutex);
    connection = {};  // the next call tries again
    return nullptr;
}

std::string pmix_library() {
    return cat("PMIx ", PMIX_VERSION_MAJOR, ".", PMIX_VERSION_MINOR, ".", PMIX_VERSION_RELEASE);
}

}  // namespace rankmesh::detail
