// SPDX-License-Identifier: Apache-2.0
// The texts that all ranks say: what is read is packed as it was read.
#include "engine/fields.hpp"

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    fuzz::read_or_refuse<EngineFailure>([&] {
        const auto texts = detail::unpack_texts(fuzz::bytes_of(data, size));
        auto bytes = std::size_t{0};
        for (const auto& each : texts) bytes += each.size();
        fuzz::require(bytes + 2 * texts.size() <= size, "texts are parts of what was read");
        fuzz::require(detail::unpack_texts(detail::pack_texts(texts)) == texts, "what is said is read again");
    });
    return 0;
}
