// SPDX-License-Identifier: Apache-2.0
#include "cluster/read/xml.hpp"

#include <pugixml.hpp>

namespace rankmesh::cluster_files {

namespace {

constexpr auto most_levels = 100;

/// Copies the library's tree to Elements, and counts lines in one pass over the text.
class Copy {
public:
    explicit Copy(const Text& text) : text_(text) {}

    Element copy(const pugi::xml_node& node, int depth) {
        auto element = Element{.name = node.name(), .line = line(node.offset_debug())};
        if (depth > most_levels)
            text_.fail(element.line, cat("has elements more than ", most_levels, " levels deep"));
        for (const auto& attribute : node.attributes())
            element.attributes.emplace_back(attribute.name(), attribute.value());
        for (const auto& inside : node.children())
            if (inside.type() == pugi::node_element) element.inside.push_back(copy(inside, depth + 1));
        return element;
    }

    /// Returns the line of an offset; offsets must not decrease.
    int line(std::ptrdiff_t offset) {
        const auto end =
            std::min(static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)), text_.content.size());
        for (; at_ < end; ++at_) line_ += text_.content[at_] == '\n' ? 1 : 0;
        return line_;
    }

private:
    const Text& text_;
    std::size_t at_ = 0;
    int line_ = 1;
};

}  // namespace

Element parse_xml(const Text& text) {
    auto document = pugi::xml_document{};
    const auto result = document.load_buffer(text.content.data(), text.content.size(),
                                             pugi::parse_default & ~pugi::parse_eol, pugi::encoding_utf8);
    auto copy = Copy(text);
    if (!result) text.fail(copy.line(result.offset), cat("is not XML from here on: ", result.description()));
    return copy.copy(document.document_element(), 0);
}

}  // namespace rankmesh::cluster_files
