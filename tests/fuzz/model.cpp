// SPDX-License-Identifier: Apache-2.0
// What is said of a model, as config.json, as flags or as a line of sizes: it is a model that prints as a
// line and is read back as the same, or refused in words.
#include <rankmesh/plan/read.hpp>

#include "law.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    const auto text = std::string(fuzz::bytes_of(data, size));
    fuzz::read_or_refuse<UsageError>([&] {
        const auto model = plan::read_model_text(text, "a file");
        fuzz::require(plan::read_model_text(plan::to_line(model), "a line") == model,
                      "what is read prints and parses back");
        fuzz::require(plan::parameters(model).total > 0, "a model has parameters");
    });
    return 0;
}
