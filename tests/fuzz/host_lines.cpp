// SPDX-License-Identifier: Apache-2.0
// What ranks tell of their hosts.
#include "engine/hosts/local_processes.hpp"

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    fuzz::read_or_refuse<EngineFailure>([&] {
        const auto given = fuzz::bytes_of(data, size);
        const auto lines = detail::read_host_lines(given);
        auto text = std::string{};
        for (const auto& line : lines) text += line.text();
        fuzz::require(detail::read_host_lines(text) == lines, "what is told is read again");
        // A line that is not read would be a rank that the others do not know.
        fuzz::require(lines.empty() == given.empty(), "no text is passed over");
    });
    return 0;
}
