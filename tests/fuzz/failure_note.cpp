// SPDX-License-Identifier: Apache-2.0
// What a rank wrote into the store about a failure: a text is read as a note whose own text gives that note
// again.
#include "engine/membership/failure_board.hpp"

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    fuzz::read_or_refuse<EngineFailure>([&] {
        constexpr auto world = 64;
        const auto note = detail::FailureNote::from(fuzz::bytes_of(data, size), world);
        fuzz::require(note.rank >= 0 && note.rank < world, "the rank that tells is one of the world");
        for (const auto* list : {&note.failure.lost, &note.failure.arrived, &note.failure.missing})
            fuzz::require(list->size() <= world, "a short text gives a short list");
        const auto again = detail::FailureNote::from(note.text(), world);
        fuzz::require(again.text() == note.text() && again.where == note.where &&
                          again.failure.why == note.failure.why && again.failure.lost == note.failure.lost &&
                          again.failure.arrived == note.failure.arrived &&
                          again.failure.missing == note.failure.missing,
                      "a note that is written is read again");
    });
    return 0;
}
