// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/channel.hpp"

#include "engine/diagnosis/attendance.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

/// How much longer than its timeout a member waits for group rank 0, whose own may have begun later.
constexpr auto answer_grace = std::chrono::seconds(1);

int rank_of(MPI_Comm comm) {
    auto rank = 0;
    MPI_Comm_rank(comm, &rank);
    return rank;
}
int size_of(MPI_Comm comm) {
    auto size = 0;
    MPI_Comm_size(comm, &size);
    return size;
}

bool test(std::vector<MPI_Request>& requests) {
    auto flag = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &flag, MPI_STATUSES_IGNORE);
    return flag != 0;
}

bool has_verdict(MPI_Comm comm) {
    auto flag = 0;
    MPI_Iprobe(0, verdict_tag, comm, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
}

/// Polls at growing intervals.
template <class Condition>
bool holds_before(std::chrono::steady_clock::time_point until, Condition&& condition) {
    for (auto pause = std::chrono::microseconds(10);;
         pause = std::min(pause * 2, std::chrono::microseconds(2000))) {
        if (condition()) return true;
        if (std::chrono::steady_clock::now() >= until) return false;
        std::this_thread::sleep_for(pause);
    }
}

[[noreturn]] void throw_missing(MPI_Comm comm, const std::vector<int>& missing, const Label& label,
                                Duration timeout, std::string_view note) {
    auto absent = std::vector<int>{};
    auto arrived = std::vector<int>{};
    for (int i = 0; i < size_of(comm); ++i)
        (std::ranges::find(missing, i) != missing.end() ? absent : arrived).push_back(label.ranks[i]);
    if (!note.empty()) arrived = {label.ranks[rank_of(comm)]};
    auto failure = timeout_failure(timeout, label.ranks[rank_of(comm)], "monitored_barrier", label,
                                   {.arrived = std::move(arrived), .missing = std::move(absent)});
    append(failure.why, note);
    failure.raise(label);
}

}  // namespace

void post_arrival(MPI_Comm comm, std::vector<MPI_Request>& requests) {
    if (rank_of(comm) != 0) {
        MPI_Isend(nullptr, 0, MPI_BYTE, 0, arrival_tag, comm, &requests.emplace_back(MPI_REQUEST_NULL));
        return;
    }
    for (int i = 1; i < size_of(comm); ++i)
        MPI_Irecv(nullptr, 0, MPI_BYTE, i, arrival_tag, comm, &requests.emplace_back(MPI_REQUEST_NULL));
}

bool all_arrived(MPI_Comm comm, std::vector<MPI_Request>& requests) {
    return rank_of(comm) == 0 ? test(requests) : has_verdict(comm);
}

void await_arrivals(MPI_Comm comm, std::vector<MPI_Request>& requests, const Label& label, Duration timeout) {
    auto missing = std::vector<int>{};
    if (rank_of(comm) == 0) {
        holds_before(from_now(timeout), [&] { return test(requests); });
        for (std::size_t i = 0; i < requests.size(); ++i) {
            if (requests[i] == MPI_REQUEST_NULL) continue;
            auto flag = 0;
            MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            if (flag != 0) continue;
            missing.push_back(static_cast<int>(i) + 1);
            MPI_Cancel(&requests[i]);
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
        for (int i = 1; i < size_of(comm); ++i)
            if (std::ranges::find(missing, i) == missing.end())
                MPI_Send(missing.data(), static_cast<int>(missing.size()), MPI_INT, i, verdict_tag, comm);
        if (!missing.empty()) throw_missing(comm, missing, label, timeout, {});
        return;
    }
    if (!holds_before(from_now(timeout) + answer_grace, [&] { return has_verdict(comm); }))
        throw_missing(comm, {0}, label, timeout, ", which would know of the others");
    auto status = MPI_Status{};
    MPI_Probe(0, verdict_tag, comm, &status);
    auto count = 0;
    MPI_Get_count(&status, MPI_INT, &count);
    missing.resize(static_cast<std::size_t>(count));
    MPI_Recv(missing.data(), count, MPI_INT, 0, verdict_tag, comm, MPI_STATUS_IGNORE);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    if (!missing.empty()) throw_missing(comm, missing, label, timeout, {});
}

}  // namespace rankmesh::detail
