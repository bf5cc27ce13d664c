// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/sparse.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "c/handles.hpp"

using namespace rankmesh;
using c::guarded;

struct rankmesh_received {
    std::vector<std::pair<int, std::vector<char>>> messages;
    std::size_t width;  // of an element
};

rankmesh_error rankmesh_sparse_all_to_all(rankmesh_communicator* communicator, const int* peers,
                                          const void* const* in, const size_t* counts, size_t messages,
                                          rankmesh_dtype dtype, rankmesh_received** received) {
    return c::made(__func__, "received", received, [&] {
        auto& on = RANKMESH_GIVEN(communicator).it;
        const auto type = c::type_of(dtype);
        auto sent = std::vector<detail::SparseMessage>{};
        for (size_t i = 0; i < messages; ++i) {
            const auto count = (&RANKMESH_GIVEN(counts))[i];
            const auto* data = (&RANKMESH_GIVEN(in))[i];
            if (count > 0) c::given(static_cast<const char*>(data), "in[i]");
            sent.push_back({(&RANKMESH_GIVEN(peers))[i], {data, count, type, 1}});
        }
        auto made = std::make_unique<rankmesh_received>();
        made->width = size_of(type);
        detail::run_sparse_all_to_all(
            on, sent, {nullptr, 0, type, 1}, [&](int from, std::size_t count) -> void* {
                auto bytes = std::vector<char>(count * made->width);
                return made->messages.emplace_back(from, std::move(bytes)).second.data();
            });
        std::ranges::stable_sort(made->messages, {}, [](const auto& each) { return each.first; });
        return made.release();
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
