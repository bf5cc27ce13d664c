// SPDX-License-Identifier: Apache-2.0
// Errors of the C interface: an exception becomes an error code, and its text and ranks are kept per thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <rankmesh/rankmesh.h>
#include <rankmesh/core/error.hpp>

namespace rankmesh::c {

/// Stores the exception in flight as this thread's last error, and returns its code.
rankmesh_error keep_error() noexcept;

/// Rethrows this thread's last error if `code` is its code. Otherwise throws an error that says that a rank's
/// program returned `code`.
[[noreturn]] void throw_returned(int code, int rank);

/// An invalid argument of a C function, as a sentence that follows its name.
struct Wrong {
    std::string what;
};

/// Runs `body`, the body of a function of that name, and returns the code of its error.
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

/// Returns what `pointer` points to. Throws for NULL.
template <class T>
T& given(T* pointer, std::string_view argument) {
    if (!pointer) throw Wrong{detail::cat("was given NULL as '", argument, "', which it needs")};
    return *pointer;
}

}  // namespace rankmesh::c

/// Returns the object of an argument; errors name the argument as written here.
#define RANKMESH_GIVEN(argument) ::rankmesh::c::given(argument, #argument)
