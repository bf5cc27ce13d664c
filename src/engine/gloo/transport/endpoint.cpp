// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/endpoint.hpp"

#include <cstring>
#include <utility>

#include "engine/fields.hpp"

namespace rankmesh::detail {

std::string Endpoint::bytes() const {
    auto text = std::string(reinterpret_cast<const char*>(&address), address_size());
    text.append(password.data(), password.size());
    return text.append(answer.data(), answer.size());
}

Endpoint Endpoint::from(std::string_view bytes) {
    auto endpoint = Endpoint{};
    const auto words = endpoint.password.size() + endpoint.answer.size();
    if (bytes.size() != words + sizeof(sockaddr_in) && bytes.size() != words + sizeof(sockaddr_in6))
        throw EngineFailure(cat("an endpoint of ", bytes.size(), " bytes"));
    const auto size = bytes.size() - words;
    std::memcpy(&endpoint.address, bytes.data(), size);
    const auto family = size == sizeof(sockaddr_in) ? AF_INET : AF_INET6;
    if (endpoint.address.ss_family != family)
        throw EngineFailure(cat("an endpoint of ", bytes.size(), " bytes whose address is of family ",
                                endpoint.address.ss_family));
    std::memcpy(endpoint.password.data(), bytes.data() + size, endpoint.password.size());
    std::memcpy(endpoint.answer.data(), bytes.data() + size + endpoint.password.size(),
                endpoint.answer.size());
    return endpoint;
}

void add_endpoint(std::string& entry, int item, int group_rank, std::string_view endpoint) {
    append(entry, cat(item, " ", group_rank, " ", endpoint.size(), " "));
    append(entry, endpoint);
}

std::string endpoint_in(std::string_view entry, int item, int group_rank) {
    for (auto fields = Fields(entry, "the endpoints that another rank announces"); !fields.at_end();) {
        const auto own_item = fields.number();
        const auto own_group_rank = fields.number();
        const auto length = fields.number();
        auto endpoint = fields.part(length);
        if (std::cmp_equal(own_item, item) && std::cmp_equal(own_group_rank, group_rank)) return endpoint;
    }
    return {};
}

}  // namespace rankmesh::detail
