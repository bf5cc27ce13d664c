// SPDX-License-Identifier: Apache-2.0
// The objects behind C handles, functions that write results to the caller's memory, and errors: an exception
// becomes an error code, and its text and ranks are kept per thread.
#pragma once

#include <type_traits>

#include <rankmesh/rankmesh.h>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/world.hpp>

struct rankmesh_mesh {
    rankmesh::Mesh it;
};
struct rankmesh_world {
    std::optional<rankmesh::World> own;  // empty: owned by rankmesh_threads_run
    rankmesh::World& it;

    explicit rankmesh_world(rankmesh::World&& world) : own(std::move(world)), it(*own) {}
    explicit rankmesh_world(rankmesh::World& lent) : it(lent) {}
};
struct rankmesh_member {
    rankmesh::Member it;
};
/// Where the elements of a strided buffer lie; without dimensions one after the other.
struct rankmesh_layout {
    std::vector<std::size_t> extents = {};
    std::vector<std::ptrdiff_t> strides = {};
};
struct rankmesh_communicator {
    rankmesh::Communicator it;
    rankmesh_layout in = {};
    rankmesh_layout out = {};
    bool is_strided() const { return !in.extents.empty() || !out.extents.empty(); }
};
struct rankmesh_pending {
    rankmesh::Pending it;
};

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

// These throw Wrong.

/// Sets the length of a result. Throws unless only the length is requested or the result fits into `size`
/// elements.
void check_room(bool has_out, std::size_t size, std::size_t* needed, std::size_t count,
                std::string_view of_what);

/// Writes a text with its terminating zero, or only its size in bytes.
void write_text(std::string_view text, char* out, std::size_t size, std::size_t* needed);

/// Writes a list of `count` numbers with `fill`, or only its length.
template <class Fill>
void write_list(std::size_t count, int* out, std::size_t size, std::size_t* needed, Fill&& fill) {
    check_room(out, size, needed, count, "numbers");
    if (out) fill(std::span(out, count));
}

/// Returns the names in a text such as "dp,cp"; "" has none.
std::vector<std::string_view> names_of(std::string_view text);

DType type_of(rankmesh_dtype dtype);
Reduction reduction_of(rankmesh_reduction reduction);
/// Checks that memory has room for `count` elements; `whose` begins the error.
void check_size(std::size_t count, DType dtype, std::string_view whose = "a count that is");
std::chrono::nanoseconds duration_of(double seconds);
Edge edge_of(rankmesh_edge edge);

/// The buffer of a call, which is NULL only without elements.
template <class Void>
detail::AnyBuffer<Void> buffer_of(Void* data, std::size_t count, DType dtype, std::string_view argument,
                                  Space space = Space::host) {
    using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
    check_size(count, dtype);
    if (count > 0) given(static_cast<Byte*>(data), argument);
    return {data, count, dtype, 1, space};
}

/// The body of a function that makes an object: sets `*out` to the result of `make`, or to NULL if it throws.
template <class Handle, class Make>
rankmesh_error made(std::string_view function, std::string_view argument, Handle** out,
                    Make&& make) noexcept {
    if (out) *out = nullptr;
    return guarded(function, [&] {
        given(out, argument);
        *out = make();
    });
}

/// Frees the object of a handle without waiting for peers, like an unwinding exception.
template <class Handle>
void abandon(Handle* handle) noexcept {
    struct Owner {
        Handle* handle;
        ~Owner() { delete handle; }
    };
    try {
        const auto owner = Owner{handle};
        throw 0;
    } catch (int) {
    }
}

}  // namespace rankmesh::c

/// Returns the object of an argument; errors name the argument as written here.
#define RANKMESH_GIVEN(argument) ::rankmesh::c::given(argument, #argument)
