// SPDX-License-Identifier: Apache-2.0
// What a monitor hears of a failure: a text that is read is told as it was read.
#include "engine/diagnosis/failure.hpp"

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    constexpr auto most = std::size_t{992};  // of a message
    constexpr auto most_ranks = std::size_t{64};
    if (size < 1) return 0;
    const auto kind = std::uint32_t{data[0]};
    /// As a message holds it: cut off, and zero bytes behind.
    const auto in_message = [](std::string text) {
        text.resize(most - 1);
        return text + '\0';
    };
    fuzz::read_or_refuse<EngineFailure>(
        [&] { detail::failure_from(kind, fuzz::bytes_of(data + 1, size - 1), most_ranks); });
    fuzz::read_or_refuse<EngineFailure>([&] {
        const auto heard = detail::failure_from(
            kind, in_message(std::string(fuzz::bytes_of(data + 1, size - 1))), most_ranks);
        const auto told = in_message(detail::to_text(heard, most));
        const auto again = detail::failure_from(kind, told, most_ranks);
        fuzz::require(in_message(detail::to_text(again, most)) == told, "what is told is heard");
    });
    return 0;
}
