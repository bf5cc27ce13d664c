// SPDX-License-Identifier: Apache-2.0
#include "engine/store/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {
namespace {

/// Throws UsageError unless this user, or root for it, is the only one who can read the file.
void check_private(int file, const std::string& what) {
    struct stat status {};
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) throw UsageError(cat(what, " is no file"));
    if (status.st_uid != geteuid() && status.st_uid != 0)
        throw UsageError(cat(what, " belongs to user ", status.st_uid, ", but this process runs as ",
                             geteuid(), "; name a file of your own"));
    if ((status.st_mode & 077) != 0) {
        auto mode = std::array<char, 8>{};
        std::snprintf(mode.data(), mode.size(), "%04o", status.st_mode & 07777);
        throw UsageError(
            cat(what, " can be read or written by others (mode ", mode.data(), "); chmod 600 it"));
    }
}

constexpr auto block_size = std::size_t{64};

constexpr std::array<std::uint32_t, 64> constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

void add_block(State& state, const char* block) {
    auto w = std::array<std::uint32_t, 64>{};
    for (std::size_t i = 0; i < 16; ++i)
        for (std::size_t byte = 0; byte < 4; ++byte)
            w[i] = w[i] << 8 | static_cast<unsigned char>(block[4 * i + byte]);
    for (std::size_t i = 16; i < w.size(); ++i) {
        const auto a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
        const auto b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < w.size(); ++i) {
        const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const auto first = h + s1 + ((e & f) ^ (~e & g)) + constants[i] + w[i];
        const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const auto second = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first;
        d = c, c = b, b = a, a = first + second;
    }
    const auto added = State{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

std::optional<Secret> secret(const std::string& name) {
    const auto file_name = name + "_FILE";
    const auto* value = std::getenv(name.c_str());
    const auto* path = std::getenv(file_name.c_str());
    // As a secret that does not exist leaves it, which its owner believes to be set.
    for (const auto& [variable, text] : {std::pair(name, value), {file_name, path}})
        if (text && !*text)
            throw UsageError(cat(variable, " is set and empty; give it the secret, or unset it"));
    if (value && path) throw UsageError(cat(name, " and ", file_name, " are both set; unset one of them"));
    if (value) return Secret{value, name};
    if (!path) return std::nullopt;

    const auto what = cat("the file '", path, "' (", file_name, ")");
    const auto file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) throw UsageError(cat(what, " cannot be read: ", std::strerror(errno)));
    auto line = std::string(4096, '\0');
    try {
        check_private(file, what);
    } catch (...) {
        close(file);
        throw;
    }
    const auto length = read(file, line.data(), line.size());
    close(file);
    line.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    line.resize(std::min(line.find_first_of("\r\n"), line.size()));
    if (line.empty()) throw UsageError(cat(what, " holds nothing in its first line"));
    return Secret{line, file_name};
}

std::string sha256(std::string_view text) {
    auto state =
        State{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const auto bits = std::uint64_t{text.size()} * 8;
    for (; text.size() >= block_size; text.remove_prefix(block_size)) add_block(state, text.data());
    auto last = std::string(text) + '\x80';
    while (last.size() % block_size != block_size - 8) last += '\0';
    for (int shift = 56; shift >= 0; shift -= 8) last += static_cast<char>(bits >> shift);
    for (std::size_t i = 0; i < last.size(); i += block_size) add_block(state, last.data() + i);
    auto bytes = std::string{};
    for (auto word : state)
        for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
    return bytes;
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
    auto padded = key.size() > block_size ? sha256(key) : std::string(key);
    padded.resize(block_size, '\0');
    auto inner = padded, outer = padded;
    for (auto& each : inner) each ^= 0x36;
    for (auto& each : outer) each ^= 0x5c;
    return sha256(outer + sha256(inner.append(text)));
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    auto difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
    return difference == 0;
}

}  // namespace rankmesh::detail
