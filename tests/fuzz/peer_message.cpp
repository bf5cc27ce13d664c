// SPDX-License-Identifier: Apache-2.0
// A datagram between the watchdogs of one host: it is nothing, or a message of the same bytes.
#include "engine/mpi/peer_query.hpp"

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    const auto given = fuzz::bytes_of(data, size);
    const auto message = detail::PeerMessage::from(given);
    if (!message) return 0;
    fuzz::require(message->bytes() == given, "a message is sent as it was read");
    fuzz::require(message->head.rank >= 0, "a rank has sent it");
    return 0;
}
