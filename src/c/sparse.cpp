// SPDX-License-Identifier: Apache-2.0
#include "engine/sparse_bytes.hpp"

#include <vector>

#include "c/handles.hpp"

using namespace rankmesh;
using c::guarded;

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
