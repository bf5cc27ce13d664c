// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "c/handles.hpp"
#include "engine/access.hpp"
#include "engine/sparse.hpp"

using namespace rankmesh;
using c::guarded;

namespace {

/// The operations of a list; `none` stands for NULL.
std::vector<Pending*> pendings_of(rankmesh_pending* const* pendings, size_t count, Pending& none) {
    auto all = std::vector<Pending*>{};
    for (size_t i = 0; i < count; ++i) {
        auto* each = (&RANKMESH_GIVEN(pendings))[i];
        all.push_back(each ? &each->it : &none);
    }
    return all;
}

rankmesh_layout layout_of(const rankmesh_strides* given, std::string_view extents, std::string_view strides) {
    if (!given) return {};
    if (given->dimensions == 0)
        throw c::Wrong{"was given strides without dimensions; pass NULL for a contiguous buffer"};
    const auto* first = &c::given(given->extents, extents);
    const auto* distance = &c::given(given->strides, strides);
    return {{first, first + given->dimensions}, {distance, distance + given->dimensions}};
}

}  // namespace

void rankmesh_communicator_free(rankmesh_communicator* communicator) { delete communicator; }

rankmesh_error rankmesh_communicator_rank(const rankmesh_communicator* communicator, int* rank) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(rank) = RANKMESH_GIVEN(communicator).it.rank(); });
}

rankmesh_error rankmesh_communicator_size(const rankmesh_communicator* communicator, int* size) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(size) = RANKMESH_GIVEN(communicator).it.size(); });
}

rankmesh_error rankmesh_communicator_world_rank(const rankmesh_communicator* communicator, int group_rank,
                                                int* world_rank) {
    return guarded(__func__, [&] {
        RANKMESH_GIVEN(world_rank) = RANKMESH_GIVEN(communicator).it.world_rank(group_rank);
    });
}

rankmesh_error rankmesh_communicator_world_ranks(const rankmesh_communicator* communicator, int* ranks,
                                                 size_t size, size_t* needed) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(communicator).it;
        c::write_list(static_cast<size_t>(it.size()), ranks, size, needed,
                      [&](std::span<int> out) { std::ranges::copy(it.world_ranks(), out.begin()); });
    });
}

rankmesh_error rankmesh_communicator_group_rank(const rankmesh_communicator* communicator, int world_rank,
                                                int* group_rank) {
    return guarded(__func__, [&] {
        const auto& it = RANKMESH_GIVEN(communicator).it;
        RANKMESH_GIVEN(group_rank) = it.group_rank_of(world_rank).value_or(RANKMESH_NO_RANK);
    });
}

rankmesh_error rankmesh_communicator_label(const rankmesh_communicator* communicator, char* label,
                                           size_t size, size_t* needed) {
    return guarded(__func__,
                   [&] { c::write_text(RANKMESH_GIVEN(communicator).it.label(), label, size, needed); });
}

rankmesh_error rankmesh_communicator_within(const rankmesh_communicator* communicator, double timeout_seconds,
                                            rankmesh_communicator** own) {
    return c::made(__func__, "own", own, [&] {
        const auto& it = RANKMESH_GIVEN(communicator).it;
        return new rankmesh_communicator{it.within(c::duration_of(timeout_seconds)), communicator->in,
                                         communicator->out};
    });
}

rankmesh_error rankmesh_communicator_strided(const rankmesh_communicator* communicator,
                                             const rankmesh_strides* in, const rankmesh_strides* out,
                                             rankmesh_communicator** own) {
    return c::made(__func__, "own", own, [&] {
        const auto& it = RANKMESH_GIVEN(communicator).it;
        return new rankmesh_communicator{it.within(detail::Access::state(it).timeout),
                                         layout_of(in, "in->extents", "in->strides"),
                                         layout_of(out, "out->extents", "out->strides")};
    });
}

rankmesh_error rankmesh_communicator_is_on_device(const rankmesh_communicator* communicator,
                                                  int* is_on_device) {
    return guarded(__func__, [&] {
        RANKMESH_GIVEN(is_on_device) = RANKMESH_GIVEN(communicator).it.space() == Space::device ? 1 : 0;
    });
}

rankmesh_error rankmesh_communicator_host(const rankmesh_communicator* communicator,
                                          rankmesh_communicator** host) {
    return c::made(__func__, "host", host, [&] {
        const auto& given = RANKMESH_GIVEN(communicator);
        return new rankmesh_communicator{given.it.host(), given.in, given.out};
    });
}

rankmesh_error rankmesh_communicator_on_stream(const rankmesh_communicator* communicator, void* stream,
                                               rankmesh_communicator** own) {
    return c::made(__func__, "own", own, [&] {
        const auto& given = RANKMESH_GIVEN(communicator);
        return new rankmesh_communicator{given.it.on(Stream{stream}), given.in, given.out};
    });
}

rankmesh_error rankmesh_pending_wait(rankmesh_pending* pending) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(pending).it.wait(); });
}

rankmesh_error rankmesh_pending_synchronize(rankmesh_pending* pending) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(pending).it.synchronize(); });
}

rankmesh_error rankmesh_pending_done(rankmesh_pending* pending, int* done) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(done) = RANKMESH_GIVEN(pending).it.done() ? 1 : 0; });
}

rankmesh_error rankmesh_pending_sender(const rankmesh_pending* pending, int* sender) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(sender) = RANKMESH_GIVEN(pending).it.sender(); });
}

rankmesh_error rankmesh_pending_wait_all(rankmesh_pending* const* pendings, size_t count) {
    return guarded(__func__, [&] {
        auto none = Pending();
        detail::wait_all(pendings_of(pendings, count, none));
    });
}

rankmesh_error rankmesh_pending_wait_any(rankmesh_pending* const* pendings, size_t count, size_t* index) {
    return guarded(__func__, [&] {
        auto none = Pending();
        auto& found = RANKMESH_GIVEN(index);
        found = detail::wait_any(pendings_of(pendings, count, none)).value_or(count);
    });
}

void rankmesh_pending_free(rankmesh_pending* pending) { delete pending; }

void rankmesh_pending_abandon(rankmesh_pending* pending) { rankmesh::c::abandon(pending); }

struct rankmesh_received {
    detail::SparseBytes messages;
    std::size_t width;  // of an element
};

rankmesh_error rankmesh_sparse_all_to_all(rankmesh_communicator* communicator, const int* peers,
                                          const void* const* in, const size_t* counts, size_t messages,
                                          rankmesh_dtype dtype, rankmesh_received** received) {
    return c::made(__func__, "received", received, [&] {
        auto& on = RANKMESH_GIVEN(communicator).it;
        if (communicator->is_strided())
            throw c::Wrong{"was given a strided handle; its messages lie one element after the other"};
        const auto type = c::type_of(dtype);
        auto sent = std::vector<detail::SparseMessage>{};
        for (size_t i = 0; i < messages; ++i) {
            const auto buffer =
                c::buffer_of((&RANKMESH_GIVEN(in))[i], (&RANKMESH_GIVEN(counts))[i], type, "in[i]");
            sent.push_back({(&RANKMESH_GIVEN(peers))[i], buffer});
        }
        return new rankmesh_received{detail::sparse_bytes(on, sent, {nullptr, 0, type, 1}), size_of(type)};
    });
}

rankmesh_error rankmesh_received_count(const rankmesh_received* received, size_t* count) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(count) = RANKMESH_GIVEN(received).messages.size(); });
}

rankmesh_error rankmesh_received_message(const rankmesh_received* received, size_t index, int* from,
                                         const void** data, size_t* count) {
    return guarded(__func__, [&] {
        const auto& [messages, width] = RANKMESH_GIVEN(received);
        if (index >= messages.size())
            throw c::Wrong{detail::cat("was given message ", index, " of ", messages.size())};
        const auto& [sender, bytes] = messages[index];
        RANKMESH_GIVEN(from) = sender;
        RANKMESH_GIVEN(data) = bytes.data();
        RANKMESH_GIVEN(count) = bytes.size() / width;
    });
}

void rankmesh_received_free(rankmesh_received* received) { delete received; }
