// SPDX-License-Identifier: Apache-2.0
// Reads models from names, files and flags. Belongs to the library rankmesh::convert, which reads JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/plan/model.hpp>

namespace rankmesh::plan {

/// What a file says beside the sizes of its model.
struct Checkpoint {
    std::vector<std::string> notes = {};    ///< what it gives and the plan does not use
    std::optional<Precision> weights = {};  ///< of the checkpoint, if it is quantized
    bool only_experts = false;              ///< other weights are in bfloat16
    bool fp8_cache = false;
};

/// Reads the argument MODEL of the command: the name of a built-in model, a file name (`-`: standard input),
/// or the content of such a file. A file holds a Hugging Face config.json, Megatron's flags, or a line of
/// sizes.
///
/// Sets what a file says beside the model. Throws UsageError, which names file, field and value, if the text
/// is invalid.
///
///     auto model = plan::read_model("layers=32 hidden=4096 heads=32 kv=8 ffn=14336 gated vocab=128256");
///     EXPECT_EQ(plan::parameters(model).total, 8030261248);
Model read_model(const std::string& text, Checkpoint* checkpoint = nullptr);

/// Reads a model from the content of the file `source`. Never takes `text` as the name of a file or model.
///
/// Law: `read_model_text(to_line(model), "") == model`.
Model read_model_text(const std::string& text, const std::string& source, Checkpoint* checkpoint = nullptr);

}  // namespace rankmesh::plan
