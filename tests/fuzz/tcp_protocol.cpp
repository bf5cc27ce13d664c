// SPDX-License-Identifier: Apache-2.0
// What a rank and the store of rank 0 read of each other: what is read is written as the same bytes, and a
// message is the same in whatever pieces it comes.
#include "engine/store/tcp_protocol.hpp"

#include <string>
#include <vector>

#include "law.hpp"

namespace {

using namespace rankmesh;
namespace wire = detail::tcp_protocol;

struct Messages {
    std::vector<std::string> all;
    bool refused = false;
    bool operator==(const Messages&) const = default;
};

Messages read(std::string_view bytes, std::size_t piece) {
    auto messages = Messages{};
    auto unread = std::string{};
    while (!bytes.empty() && !messages.refused) {
        unread += bytes.substr(0, piece);
        bytes.remove_prefix(std::min(piece, bytes.size()));
        try {
            while (const auto message = wire::message_in(unread)) {
                messages.all.emplace_back(*message);
                unread.erase(0, 4 + message->size());
            }
        } catch (const wire::Malformed&) {
            messages.refused = true;
        }
    }
    return messages;
}

void requests(std::string_view bytes, std::size_t piece) {
    const auto messages = read(bytes, piece);
    fuzz::require(messages == read(bytes, bytes.size()),
                  "messages do not depend on the pieces in which they come");
    for (const auto& message : messages.all) {
        const auto request = wire::Request::from(message);
        fuzz::require(4 * request.names.size() <= message.size(), "a name takes memory once it has come");
        auto written = std::string{};
        wire::add(written, message);
        fuzz::require(request.bytes() == written, "a request has one form");
    }
}

void greeting(std::string_view bytes) {
    auto read = std::size_t{0};
    while (read < wire::Greeting::size_of(bytes.substr(0, read))) {
        read = wire::Greeting::size_of(bytes.substr(0, read));
        fuzz::require(read <= 52 + wire::longest_words, "a greeting is short");
        if (read > bytes.size()) return;
    }
    fuzz::require(wire::Greeting::from(bytes.substr(0, read)).bytes() == bytes.substr(0, read),
                  "a greeting has one form");
}

void entries(std::string_view bytes, std::size_t count) {
    const auto found = wire::entries_in(bytes, count);
    fuzz::require(found.size() == count, "each name has its answer");
    auto written = std::string{};
    for (const auto& entry : found) {
        written += entry ? '\1' : '\0';
        if (entry) wire::add(written, *entry);
    }
    fuzz::require(written == bytes, "entries have one form");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const auto bytes = fuzz::bytes_of(data, size).substr(2);
    const auto number = std::size_t{data[1]};
    try {
        switch (data[0] % 4) {
            case 0:
                requests(bytes, number % 16 + 1);
                break;
            case 1:
                greeting(bytes);
                break;
            case 2:
                entries(bytes, number);
                break;
            default:
                fuzz::require(wire::Hello::from(bytes).bytes() == bytes, "a hello has one form");
        }
    } catch (const wire::Malformed&) {
    }
    return 0;
}
