// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rankmesh::detail {

/// The address of a peer, and the passwords by which both ends authenticate: they are read from the store, to
/// which other users have no access.
struct Endpoint {
    using Word = std::array<char, 16>;
    sockaddr_storage address = {};
    Word password = {};  // what the connecting end sends
    Word answer = {};    // what the listening end answers
    /// What it answers where it does not wait for the sender of that password any more.
    static constexpr Word refusal = {};

    std::string bytes() const;
    /// Reads what `bytes` has written; throws EngineFailure for anything else.
    static Endpoint from(std::string_view bytes);
    socklen_t address_size() const {
        return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    }
};

/// Appends an endpoint to what a rank announces: the one for `group_rank` in the group of an item.
void add_endpoint(std::string& entry, int item, int group_rank, std::string_view endpoint);
/// The endpoint by which `group_rank` reaches the rank that wrote `entry`, in the group of that item; "" if
/// it has none.
std::string endpoint_in(std::string_view entry, int item, int group_rank);

/// Reads the word that the other end of a connection must know, however many pieces it comes in.
class WordReader {
public:
    /// Where the next bytes go.
    std::span<char> room() { return std::span(word_).subspan(read_); }
    /// Takes the bytes that were put there.
    void take(std::size_t bytes) { read_ += bytes; }
    bool is_complete() const { return read_ == word_.size(); }
    const Endpoint::Word& word() const { return word_; }
    /// True for a complete word that is equal; compares in constant time.
    bool is(const Endpoint::Word& word) const {
        auto difference = 0;
        for (std::size_t i = 0; i < word.size(); ++i) difference |= word_[i] ^ word[i];
        return is_complete() && difference == 0;
    }

private:
    std::size_t read_ = 0;
    Endpoint::Word word_ = {};
};

}  // namespace rankmesh::detail
