// SPDX-License-Identifier: Apache-2.0
// What a stranger sends before Gloo gets the connection: exactly the password opens it, in whatever pieces.
#include <algorithm>
#include <string>

#include "engine/gloo/transport/endpoint.hpp"

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    auto password = detail::Endpoint::Word{};
    if (size < password.size()) return 0;
    std::copy_n(data, password.size(), password.begin());
    auto sent = fuzz::bytes_of(data, size).substr(password.size());
    auto reader = detail::WordReader();
    auto heard = std::string{};
    // The first byte of each piece is its length.
    while (!sent.empty() && !reader.is_complete()) {
        const auto length = static_cast<std::size_t>(static_cast<unsigned char>(sent.front())) % 17;
        sent.remove_prefix(1);
        const auto room = reader.room();
        fuzz::require(room.size() == password.size() - heard.size(), "there is room for a word and no more");
        const auto piece = sent.substr(0, std::min(length, room.size()));
        std::ranges::copy(piece, room.begin());
        reader.take(piece.size());
        heard += piece;
        sent.remove_prefix(piece.size());
        const auto equal = heard == std::string_view(password.data(), password.size());
        fuzz::require(reader.is_complete() == (heard.size() == password.size()), "a word has 16 bytes");
        fuzz::require(reader.is(password) == equal, "only the password is the password");
    }
    return 0;
}
