// SPDX-License-Identifier: Apache-2.0
#include "picture.hpp"

#include <algorithm>
#include <filesystem>

#include <rankmesh/core/error.hpp>

#include "output.hpp"

namespace rankmesh::cli {

PictureFormat picture_format(std::string_view out, std::string_view format,
                             const std::vector<std::string>& known) {
    if (out.empty() && format.empty())
        throw UsageError(detail::cat("--out is missing; add --out FILE.", known.front(), ", or --format ",
                                     known.front(), " to print the picture"));
    auto ending = std::filesystem::path(out).extension().string();
    if (!ending.empty()) ending.erase(0, 1);
    if (!out.empty() && std::ranges::find(known, ending) == known.end())
        throw UsageError(detail::cat("--out ", detail::in_quotes(out),
                                     " has no known file type; the name must end in .",
                                     joined(known, ", .")));
    if (!out.empty() && !format.empty() && ending != format)
        throw UsageError(detail::cat("--out ", detail::in_quotes(out), " is ", ending, ", but --format is ",
                                     format, "; remove --format"));
    const auto name = out.empty() ? format : std::string_view(ending);
    return name == "html" ? PictureFormat::html : name == "svg" ? PictureFormat::svg : PictureFormat::txt;
}

}  // namespace rankmesh::cli
