// SPDX-License-Identifier: Apache-2.0
#include "c/errors.hpp"

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace rankmesh::c {
namespace {

struct LastError {
    rankmesh_error code = RANKMESH_OK;
    std::string text;
    std::vector<int> ranks[4];  // by rankmesh_error_list
};

LastError& last() {
    thread_local auto error = LastError{};
    return error;
}

void keep(rankmesh_error code, const std::exception& error) {
    last() = {};
    last().code = code;
    last().text = error.what();
}

/// Stores the exception in flight as the last error. May throw if out of memory.
void keep_thrown() {
    try {
        throw;
    } catch (const UsageError& error) {
        keep(RANKMESH_USAGE_ERROR, error);
    } catch (const Disagreement& error) {
        keep(RANKMESH_DISAGREEMENT, error);
        last().ranks[RANKMESH_RANKS_DIFFERING] = error.ranks;
    } catch (const Timeout& error) {
        keep(RANKMESH_TIMEOUT, error);
        last().ranks[RANKMESH_RANKS_ARRIVED] = error.arrived;
        last().ranks[RANKMESH_RANKS_MISSING] = error.missing;
    } catch (const PeerLost& error) {
        keep(RANKMESH_LOST, error);
        last().ranks[RANKMESH_RANKS_LOST] = error.ranks;
    } catch (const EngineFailure& error) {
        keep(RANKMESH_ENGINE_FAILURE, error);
    } catch (const NotBuilt& error) {
        keep(RANKMESH_NOT_BUILT, error);
    } catch (const std::exception& error) {
        keep(RANKMESH_OTHER_FAILURE, error);
    } catch (...) {
        keep(RANKMESH_OTHER_FAILURE, Error("something that is no exception of C++ was thrown"));
    }
}

}  // namespace

rankmesh_error keep_error() noexcept {
    try {
        keep_thrown();
    } catch (...) {
        last() = {};
        last().code = RANKMESH_OTHER_FAILURE;
    }
    return last().code;
}

void throw_returned(int code, int rank) {
    auto& error = last();
    auto& ranks = error.ranks;
    if (code == error.code) switch (code) {
            case RANKMESH_USAGE_ERROR:
                throw UsageError(error.text);
            case RANKMESH_DISAGREEMENT:
                throw Disagreement(error.text, ranks[RANKMESH_RANKS_DIFFERING]);
            case RANKMESH_TIMEOUT:
                throw Timeout(error.text, ranks[RANKMESH_RANKS_ARRIVED], ranks[RANKMESH_RANKS_MISSING]);
            case RANKMESH_LOST:
                throw PeerLost(error.text, ranks[RANKMESH_RANKS_LOST]);
            case RANKMESH_ENGINE_FAILURE:
                throw EngineFailure(error.text);
            case RANKMESH_NOT_BUILT:
                throw NotBuilt(error.text);
            default:
                throw Error(error.text);
        }
    throw Error(detail::cat("the program of rank ", rank, " returned ", code, ", not 0"));
}

}  // namespace rankmesh::c

using namespace rankmesh;

const char* rankmesh_error_text(void) { return c::last().text.c_str(); }

const int* rankmesh_error_ranks(rankmesh_error_list which, size_t* count) {
    if (count) *count = 0;
    if (!count || which < RANKMESH_RANKS_DIFFERING || which > RANKMESH_RANKS_LOST) return nullptr;
    const auto& ranks = c::last().ranks[which];
    *count = ranks.size();
    return ranks.empty() ? nullptr : ranks.data();
}
