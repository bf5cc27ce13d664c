// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/detail/make_call.hpp>

#include <string>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/buffers.hpp>
#include <rankmesh/engine/counts.hpp>
#include <rankmesh/engine/message.hpp>

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

Call make_reduction(Operation operation, const AnyBuffer<const void>& in, const AnyBuffer<void>& out,
                    Reduction reduction, int root) {
    auto call = make_call(operation, in, out, root);
    call.reduction = reduction;
    if (in.unit == 2 && !reduces_complex(reduction))
        throw UsageError(cat("a ", to_string(reduction), " of complex numbers; they have sum and mean"));
    if (operation == Operation::scan && reduction == Reduction::mean)
        throw UsageError("a scan by mean; scans have every reduction but mean");
    return call;
}

}  // namespace rankmesh::detail
