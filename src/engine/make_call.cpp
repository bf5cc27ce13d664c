// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/detail/make_call.hpp>

#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/buffers.hpp>
#include <rankmesh/engine/counts.hpp>
#include <rankmesh/engine/location.hpp>
#include <rankmesh/engine/message.hpp>

#include "engine/arithmetic.hpp"

namespace rankmesh::detail {

std::string buffer_of(Operation operation) { return cat("a buffer of ", to_string(operation)); }
std::string buffer_of_list(std::size_t number) { return cat("buffer ", number, " of a list"); }

void refuse(std::string_view what, std::string_view reason) {
    throw UsageError(cat(what, " cannot be used as it lies in memory: ", reason,
                         "; copy it to where its elements lie one after the other"));
}

void refuse_tag(int tag) {
    throw UsageError(cat("a message was given tag ", tag, "; tags are 0..", Tag::most));
}

void refuse_count(std::size_t position, long long count) {
    throw UsageError(cat("the count of group rank ", position, " is ", count, "; counts are 0 or more"));
}

void refuse_length(int from, std::size_t bytes, std::size_t unit) {
    throw UsageError(cat("the message of group rank ", from, " has ", bytes,
                         " bytes, which are no whole elements of ", unit,
                         " bytes; ask for its type, or receive bytes"));
}

void two_types(Operation operation, const AnyBuffer<const void>& in, const AnyBuffer<void>& out) {
    const auto type = [](DType dtype, std::size_t unit) {
        return cat(unit == 2 && dtype != DType::byte ? "complex " : "", to_string(dtype));
    };
    throw UsageError(cat(to_string(operation), " was given ", type(in.dtype, in.unit), " elements in and ",
                         type(out.dtype, out.unit), " out; both must be of one type"));
}

namespace {

/// The function of pairs whose values are of `dtype`, null if there is none.
template <Reduction R>
const Function* location_of(DType dtype) {
    const Function* function = nullptr;
    with_type(dtype, [&]<class T>(T*) {
        if constexpr (reduces(Reduction::min, dtype_of<T>::value))
            function = &LocationTag<R>::template function<Located<T>>;
    });
    return function;
}

/// Makes a call on values of `dtype` one on pairs of a value and an index.
void locate(Call& call) {
    if (call.reduction == Reduction::user_defined)
        throw UsageError("a reduction by a function; only C++ programs can pass one");
    const auto function = call.reduction == Reduction::min_location
                              ? location_of<Reduction::min_location>(call.dtype)
                              : location_of<Reduction::max_location>(call.dtype);
    if (!function || call.unit != 1)
        throw UsageError(cat("a ", to_string(call.reduction), " of ", call.unit == 2 ? "complex " : "",
                             to_string(call.dtype), " values; they must be integers, f16, bf16, f32 or f64"));
    constexpr auto bytes = sizeof(Located<double>);
    static_assert(sizeof(Located<std::int8_t>) == bytes);
    call.function = function;
    call.dtype = DType::byte;
    call.unit = bytes;
    call.in_count *= bytes;
    call.out_count *= bytes;
}

}  // namespace

Call make_reduction(Operation operation, const AnyBuffer<const void>& in, const AnyBuffer<void>& out,
                    Reduction reduction, int root) {
    auto call = make_call(operation, in, out, root);
    call.reduction = reduction;
    if (by_function(reduction)) locate(call);
    if (in.unit == 2 && !reduces_complex(reduction))
        throw UsageError(
            cat("a ", to_string(reduction), " of complex numbers; they have sum, mean and reproducible_sum"));
    const auto scans = operation == Operation::scan || operation == Operation::exclusive_scan;
    if (scans && reduction == Reduction::mean)
        throw UsageError(cat(operation == Operation::scan ? "a " : "an ", to_string(operation),
                             " by mean; scans have every reduction but mean"));
    return call;
}

}  // namespace rankmesh::detail
