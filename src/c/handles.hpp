// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of C, and how results are written into a caller's memory.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/world.hpp>

#include "c/errors.hpp"

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
struct rankmesh_communicator {
    rankmesh::Communicator it;
};
struct rankmesh_pending {
    rankmesh::Pending it;
};

namespace rankmesh::c {

// They throw Wrong.

/// Sets the length of a result; throws unless only the length is requested, or the result fits into `size`
/// places.
void check_room(bool has_out, std::size_t size, std::size_t* needed, std::size_t count,
                std::string_view of_what);

/// Writes a text with its zero, or only how many bytes that takes.
void write_text(std::string_view text, char* out, std::size_t size, std::size_t* needed);

/// Writes a list of `count` numbers by `fill`, or only how long it is.
template <class Fill>
void write_list(std::size_t count, int* out, std::size_t size, std::size_t* needed, Fill&& fill) {
    check_room(out, size, needed, count, "numbers");
    if (out) fill(std::span(out, count));
}

/// The names of a text such as "dp,cp"; "" has none.
std::vector<std::string_view> names_of(std::string_view text);

std::chrono::nanoseconds duration_of(double seconds);
Edge edge_of(rankmesh_edge edge);

/// The inside of a function that makes an object: `*out` becomes what `make` returns, NULL where it throws.
template <class Handle, class Make>
rankmesh_error made(std::string_view function, std::string_view argument, Handle** out,
                    Make&& make) noexcept {
    if (out) *out = nullptr;
    return guarded(function, [&] {
        given(out, argument);
        *out = make();
    });
}

/// Frees the object behind a handle as an unwinding exception would: without waiting for peers.
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
