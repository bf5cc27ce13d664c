// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace support {

/// The bytes of a file, none if there is no such file.
inline std::string content_of(const std::filesystem::path& path) {
    auto in = std::ifstream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace support
