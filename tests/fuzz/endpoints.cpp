// SPDX-License-Identifier: Apache-2.0
// The endpoints that a rank announces: the one that is found is one that can be announced.
#include "engine/gloo/transport/endpoint.hpp"

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    const auto given = fuzz::bytes_of(data, size);
    for (const auto& [item, group_rank] : {std::pair(0, 0), std::pair(0, 1), std::pair(12, 3)})
        fuzz::read_or_refuse<EngineFailure>([&, item = item, group_rank = group_rank] {
            const auto found = detail::endpoint_in(given, item, group_rank);
            if (found.empty()) return;
            auto entry = std::string{};
            detail::add_endpoint(entry, item, group_rank, found);
            fuzz::require(detail::endpoint_in(entry, item, group_rank) == found,
                          "what is announced is found");
            fuzz::require(detail::endpoint_in(entry, item + 1, group_rank).empty(),
                          "and nothing that was not announced");
        });
    fuzz::read_or_refuse<EngineFailure>(
        [&] { fuzz::require(detail::Endpoint::from(given).bytes() == given, "an endpoint has one text"); });
    return 0;
}
