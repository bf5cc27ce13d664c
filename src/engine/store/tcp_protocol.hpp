// SPDX-License-Identifier: Apache-2.0
// The protocol between a rank and the store that rank 0 serves, which docs/design/0020-tcp-store.md
// describes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::detail::tcp_protocol {

constexpr auto magic = std::string_view("rankmesh store 2");
constexpr auto nonce_size = std::size_t{16};
constexpr auto tag_size = std::size_t{16};
constexpr auto proof_size = std::size_t{32};
constexpr auto hello_size = 8 + nonce_size + proof_size;
constexpr auto longest_words = std::size_t{512};
constexpr auto longest_name = std::size_t{4096};
/// More than the ranks of a world.
constexpr auto most_names = std::uint32_t{1} << 22;
/// More bytes than the entry of a world of a million ranks has.
constexpr auto longest_message = std::size_t{1} << 28;

enum class Operation : unsigned char { set = 1, get = 2, remove = 3 };
enum class Status : unsigned char { done = 0, refused = 1 };

/// Thrown for bytes that cannot be a message of this protocol.
struct Malformed {};

/// Appends four bytes, the highest first.
inline void add(std::string& out, std::uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift);
}
/// Appends the length of a text, and the text.
inline void add(std::string& out, std::string_view text) {
    add(out, static_cast<std::uint32_t>(text.size()));
    out += text;
}

/// Reads what `add` has written; throws Malformed if there is less.
class Unpacker {
public:
    explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}
    std::string_view part(std::size_t size) {
        if (size > bytes_.size()) throw Malformed{};
        const auto part = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return part;
    }
    std::uint32_t number() {
        auto value = std::uint32_t{0};
        for (auto c : part(4)) value = value << 8 | static_cast<unsigned char>(c);
        return value;
    }
    std::string_view text() { return part(number()); }
    std::string_view rest() { return part(bytes_.size()); }
    bool at_end() const { return bytes_.empty(); }

private:
    std::string_view bytes_;
};

/// The message at the begin of the bytes, without its length; nothing while it is incomplete.
std::optional<std::string_view> message_in(std::string_view bytes);

/// The first message of a store, to anybody.
struct Greeting {
    std::string server_nonce;
    std::string tag;  // of its job

    /// The size of a greeting; throws Malformed if these bytes do not begin one.
    static std::size_t size_of(std::string_view bytes);
    static Greeting from(std::string_view bytes);
    std::string bytes() const;
};

/// The first message of a rank.
struct Hello {
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    std::string nonce;
    std::string proof;

    static Hello from(std::string_view bytes);
    std::string bytes() const;
};

/// A request of a rank to the store.
struct Request {
    std::uint32_t id = 0;
    Operation operation = Operation::get;
    std::uint32_t milliseconds = 0;       // that a `get` waits
    std::vector<std::string> names = {};  // one of a `set`
    std::string_view text = {};           // of a `set`

    static Request from(std::string_view message);
    /// The message with its length.
    std::string bytes() const;
};

/// The entries in an answer to a `get` of `count` names, nothing for those that do not exist.
std::vector<std::optional<std::string>> entries_in(std::string_view answer, std::size_t count);

/// 128 random bits.
std::string nonce();
/// Tells a rank whether a store serves its job.
std::string tag_of(std::string_view job, std::string_view server_nonce);
/// Proves that `who`, "rank" or "store", knows the key of the job in the conversation that `hello` begins.
std::string proof_of(std::string_view key, std::string_view who, std::string_view job,
                     std::string_view server_nonce, const Hello& hello);

/// Settings of both ends: no delay, and a peer whose host is gone is noticed within a minute.
void prepare(int socket);

}  // namespace rankmesh::detail::tcp_protocol
