// SPDX-License-Identifier: Apache-2.0
#include "c/handles.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <ranges>

namespace rankmesh::c {

using detail::cat;

namespace {

/// True for the enumerators of 0, 1, ... in this order: those of C and C++ have the same values.
template <class Enumerator>
consteval bool counts_up(std::initializer_list<Enumerator> enumerators) {
    auto next = 0;
    return std::ranges::all_of(enumerators, [&](auto each) { return static_cast<int>(each) == next++; });
}
static_assert(counts_up({RANKMESH_I8, RANKMESH_I16, RANKMESH_I32, RANKMESH_I64, RANKMESH_U8, RANKMESH_U16,
                         RANKMESH_U32, RANKMESH_U64, RANKMESH_BOOL, RANKMESH_BYTE, RANKMESH_F8E4M3,
                         RANKMESH_F8E5M2, RANKMESH_F16, RANKMESH_BF16, RANKMESH_F32, RANKMESH_F64}));
static_assert(counts_up({DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32,
                         DType::u64, DType::boolean, DType::byte, DType::f8e4m3, DType::f8e5m2, DType::f16,
                         DType::bf16, DType::f32, DType::f64}));
static_assert(counts_up({RANKMESH_SUM, RANKMESH_PROD, RANKMESH_MIN, RANKMESH_MAX, RANKMESH_MEAN,
                         RANKMESH_BIT_AND, RANKMESH_BIT_OR, RANKMESH_BIT_XOR, RANKMESH_LOGICAL_AND,
                         RANKMESH_LOGICAL_OR, RANKMESH_LOGICAL_XOR, RANKMESH_REPRODUCIBLE_SUM,
                         RANKMESH_MIN_LOCATION, RANKMESH_MAX_LOCATION}));
static_assert(counts_up({Reduction::sum, Reduction::prod, Reduction::min, Reduction::max, Reduction::mean,
                         Reduction::bit_and, Reduction::bit_or, Reduction::bit_xor, Reduction::logical_and,
                         Reduction::logical_or, Reduction::logical_xor, Reduction::reproducible_sum,
                         Reduction::min_location, Reduction::max_location}));
constexpr auto dtypes = static_cast<int>(std::size(detail::dtype_sizes));
static_assert(dtypes == RANKMESH_F64 + 1, "a type is missing in rankmesh.h");

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

void check_room(bool has_out, std::size_t size, std::size_t* needed, std::size_t count,
                std::string_view of_what) {
    if (needed) *needed = count;
    if (!has_out && !needed) throw Wrong{"was given NULL both for the answer and for 'needed'; it needs one"};
    if (!has_out && size > 0)
        throw Wrong{cat("was given NULL for an answer of up to ", size, " ", of_what,
                        "; with a size of 0 it says how many there are")};
    if (has_out && size < count)
        throw Wrong{cat("has an answer of ", count, " ", of_what, ", and was given room for ", size,
                        "; with NULL and a size of 0 it says how many there are")};
}

void write_text(std::string_view text, char* out, std::size_t size, std::size_t* needed) {
    check_room(out, size, needed, text.size() + 1, "bytes");
    if (!out) return;
    std::memcpy(out, text.data(), text.size());
    out[text.size()] = '\0';
}

std::vector<std::string_view> names_of(std::string_view text) {
    auto names = std::vector<std::string_view>{};
    for (const auto name : std::views::split(text, ',')) names.emplace_back(name.begin(), name.end());
    return names;
}

std::chrono::nanoseconds duration_of(double seconds) {
    constexpr auto most = 1e9;  // 30 years; an int64 has room for 292 in nanoseconds
    if (!(seconds > 0)) throw Wrong{cat("was given a time of ", seconds, " seconds; it must be positive")};
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(seconds, most) * 1e9));
}

Edge edge_of(rankmesh_edge edge) {
    if (edge != RANKMESH_OPEN && edge != RANKMESH_WRAP)
        throw Wrong{cat("was given the edge ", edge,
                        "; there are RANKMESH_OPEN, which is 0, and RANKMESH_WRAP, which is 1")};
    return static_cast<Edge>(edge);
}
static_assert(static_cast<int>(Edge::open) == RANKMESH_OPEN && static_cast<int>(Edge::wrap) == RANKMESH_WRAP);

DType type_of(rankmesh_dtype dtype) {
    if (dtype < 0 || dtype >= dtypes)
        throw Wrong{cat("was given the dtype ", dtype,
                        "; there are RANKMESH_I8, which is 0, to RANKMESH_F64, which is ", dtypes - 1)};
    return static_cast<DType>(dtype);
}

void check_size(std::size_t count, DType dtype, std::string_view whose) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    if (count > most / size_of(dtype))
        throw Wrong{cat("was given ", whose, " more than memory has room for")};
}

Reduction reduction_of(rankmesh_reduction reduction) {
    constexpr auto last = static_cast<int>(RANKMESH_MAX_LOCATION);
    if (reduction < RANKMESH_SUM || reduction > last)
        throw Wrong{cat("was given the reduction ", reduction,
                        "; there are RANKMESH_SUM, which is 0, to RANKMESH_MAX_LOCATION, which is ", last)};
    return static_cast<Reduction>(reduction);
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

size_t rankmesh_dtype_size(rankmesh_dtype dtype) {
    return dtype < 0 || dtype >= c::dtypes ? 0 : size_of(static_cast<DType>(dtype));
}
