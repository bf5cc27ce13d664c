// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "engine/gloo/transport/endpoint.hpp"

namespace rankmesh::detail {

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
