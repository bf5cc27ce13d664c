// SPDX-License-Identifier: Apache-2.0
// Reads what is trained from what people have, in rankmesh::convert, which has what reads JSON.
#pragma once

#include <string>
#include <string_view>

#include <rankmesh/plan/model.hpp>

namespace rankmesh::plan {

/// Reads MODEL as the command takes it: the name of a built-in shape, a file (`-` for standard input), or
/// what a file may hold: Hugging Face's config.json, Megatron's flags, or a line of sizes.
///
/// Throws UsageError that names file, field and value.
///
///     auto model = plan::read_model("layers=32 hidden=4096 heads=32 kv=8 ffn=14336 gated vocab=128256");
///     EXPECT_EQ(plan::parameters(model).total, 8030261248);
Model read_model(const std::string& text);

/// The same of a text that is the content of `source`, and never the name of a file or a shape.
Model read_model_text(const std::string& text, const std::string& source);

/// The line of sizes of a model, without those that are 0.
///
/// Law: `read_model_text(to_line(model), "") == model`.
std::string to_line(const Model& model);

}  // namespace rankmesh::plan
