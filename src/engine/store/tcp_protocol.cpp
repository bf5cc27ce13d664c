// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_protocol.hpp"
#include <netinet/in.h>

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include <rankmesh/core/error.hpp>

#include "engine/store/secret.hpp"
#include "engine/system.hpp"

namespace rankmesh::detail::tcp_protocol {

std::optional<std::string_view> message_in(std::string_view bytes) {
    if (bytes.size() < 4) return std::nullopt;
    const auto length = Unpacker(bytes).number();
    if (length > longest_message) throw Malformed{};
    bytes.remove_prefix(4);
    if (bytes.size() < length) return std::nullopt;
    return bytes.substr(0, length);
}

std::size_t Greeting::size_of(std::string_view bytes) {
    const auto compared = std::min(bytes.size(), magic.size());
    if (bytes.substr(0, compared) != magic.substr(0, compared)) throw Malformed{};
    return magic.size() + nonce_size + tag_size;
}

Greeting Greeting::from(std::string_view bytes) {
    if (bytes.size() != size_of(bytes)) throw Malformed{};
    auto reader = Unpacker(bytes.substr(magic.size()));
    auto greeting = Greeting{};
    greeting.server_nonce = reader.part(nonce_size);
    greeting.tag = reader.part(tag_size);
    return greeting;
}

std::string Greeting::bytes() const { return cat(magic, server_nonce, tag); }

Hello Hello::from(std::string_view bytes) {
    if (bytes.size() != hello_size) throw Malformed{};
    auto reader = Unpacker(bytes);
    auto hello = Hello{};
    hello.rank = reader.number();
    hello.size = reader.number();
    hello.nonce = reader.part(nonce_size);
    hello.proof = reader.part(proof_size);
    return hello;
}

std::string Hello::bytes() const {
    auto numbers = std::string{};
    add(numbers, rank);
    add(numbers, size);
    return numbers + nonce + proof;
}

Request Request::from(std::string_view message) {
    auto reader = Unpacker(message);
    auto request = Request{};
    const auto add_name = [&] {
        const auto name = reader.text();
        if (name.size() > longest_name) throw Malformed{};
        request.names.emplace_back(name);
    };
    request.id = reader.number();
    request.operation = static_cast<Operation>(reader.part(1).front());
    switch (request.operation) {
        case Operation::set:
            add_name();
            request.text = reader.rest();
            return request;
        case Operation::get:
            request.milliseconds = reader.number();
            break;
        case Operation::remove:
            break;
        default:
            throw Malformed{};
    }
    auto count = reader.number();
    if (count > most_names) throw Malformed{};
    for (; count > 0; --count) add_name();
    if (!reader.at_end()) throw Malformed{};
    return request;
}

std::string Request::bytes() const {
    auto message = std::string{};
    add(message, id);
    message += static_cast<char>(operation);
    if (operation == Operation::get) add(message, milliseconds);
    if (operation != Operation::set) add(message, static_cast<std::uint32_t>(names.size()));
    for (const auto& name : names) add(message, name);
    message += text;
    auto framed = std::string{};
    add(framed, message);
    return framed;
}

std::vector<std::optional<std::string>> entries_in(std::string_view answer, std::size_t count) {
    auto reader = Unpacker(answer);
    auto entries = std::vector<std::optional<std::string>>{};
    for (; count > 0; --count) {
        const auto exists = reader.part(1).front();
        if (exists == '\0')
            entries.emplace_back();
        else if (exists == '\1')
            entries.emplace_back(reader.text());
        else
            throw Malformed{};
    }
    if (!reader.at_end()) throw Malformed{};
    return entries;
}

std::string nonce() { return random_bytes(nonce_size); }

std::string tag_of(std::string_view job, std::string_view server_nonce) {
    return sha256(cat("rankmesh job", server_nonce, job)).substr(0, tag_size);
}

std::string proof_of(std::string_view key, std::string_view who, std::string_view job,
                     std::string_view server_nonce, const Hello& hello) {
    auto text = std::string{};
    for (const auto part : {who, job, server_nonce, std::string_view(hello.nonce)}) add(text, part);
    add(text, hello.rank);
    add(text, hello.size);
    return hmac_sha256(key, text);
}

void prepare(int socket) {
    const auto set = [&](int level, int option, int value) {
        static_cast<void>(setsockopt(socket, level, option, &value, sizeof value));
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 20);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set(IPPROTO_TCP, TCP_KEEPCNT, 4);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60'000);
}

}  // namespace rankmesh::detail::tcp_protocol
