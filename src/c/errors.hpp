// SPDX-License-Identifier: Apache-2.0
// Errors of the C interface: an exception becomes an error code, and its text and ranks are kept per thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <rankmesh/rankmesh.h>
#include <rankmesh/core/error.hpp>

namespace rankmesh::c {

/// Keeps what the exception in flight says as the last error of this thread, and returns its number.
rankmesh_error keep_error() noexcept;

/// Throws the last error of this thread again if `code` is its number, else one that says that a rank's
/// program returned `code`.
[[noreturn]] void throw_returned(int code, int rank);

/// An invalid argument of a C function, as a sentence that follows its name.
struct Wrong {
    std::string what;
};

/// Runs `body`, the inside of a function of that name; the number of what it throws.
template <class Body>
rankmesh_error guarded(std::string_view function, Body&& body) noexcept {
    try {
        try {
            body();
            return RANKMESH_OK;
        } catch (const Wrong& wrong) {
            throw UsageError(detail::cat(function, " ", wrong.what));
        }
    } catch (...) {
        return keep_error();
    }
}

/// What `pointer` points to; throws for NULL.
template <class T>
T& given(T* pointer, std::string_view argument) {
    if (!pointer) throw Wrong{detail::cat("was given NULL as '", argument, "', which it needs")};
    return *pointer;
}

}  // namespace rankmesh::c

/// The object behind an argument, named in errors as it is written here.
#define RANKMESH_GIVEN(argument) ::rankmesh::c::given(argument, #argument)
