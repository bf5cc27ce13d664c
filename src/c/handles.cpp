// SPDX-License-Identifier: Apache-2.0
#include "c/handles.hpp"

#include <algorithm>
#include <cstring>

namespace rankmesh::c {

using detail::cat;

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
    if (text.empty()) return names;
    for (auto begin = std::size_t{0}; begin <= text.size();) {
        const auto end = std::min(text.find(',', begin), text.size());
        names.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
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

}  // namespace rankmesh::c
