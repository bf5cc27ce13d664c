// SPDX-License-Identifier: Apache-2.0
// Any text, in each format and in the one that it seems to be: it is a cluster that prints and parses back,
// or refused in words.
#include <cluster/read/read.hpp>

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    static const auto formats = cluster_files::formats();
    if (size < 1) return 0;
    const auto text = std::string(fuzz::bytes_of(data + 1, size - 1));
    const auto format = data[0] % (formats.size() + 1);
    for (const auto* inside : {"", "gpu:8"})
        fuzz::read_or_refuse<UsageError>([&] {
            const auto cluster = cluster_files::read(
                text, "a file", format < formats.size() ? formats[format].name : std::string_view(), inside);
            fuzz::require(Cluster::parse(to_string(cluster)) == cluster,
                          "what is read prints and parses back");
        });
    return 0;
}
