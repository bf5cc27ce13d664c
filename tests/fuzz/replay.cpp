// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of a folder, with any compiler: what was once found stays fixed.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    auto count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
        auto file = std::ifstream(entry.path(), std::ios::binary);
        const auto bytes = std::vector<char>(std::istreambuf_iterator<char>(file), {});
        std::printf("%s\n", entry.path().filename().c_str());
        std::fflush(stdout);
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
        ++count;
    }
    std::printf("%d files\n", count);
    return count > 0 ? 0 : 1;  // an empty corpus tests nothing
}
