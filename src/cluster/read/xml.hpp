// SPDX-License-Identifier: Apache-2.0
// XML as a tree of elements. Only xml.cpp includes the library that reads XML.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/read/formats.hpp"

namespace rankmesh::cluster_files {

struct Element {
    std::string name;
    int line = 0;
    std::vector<std::pair<std::string, std::string>> attributes = {};
    std::vector<Element> inside = {};

    /// Returns the value of an attribute, or "" if it is missing.
    std::string_view operator[](std::string_view attribute) const {
        for (const auto& [name_of, value] : attributes)
            if (name_of == attribute) return value;
        return {};
    }
};

/// Returns the root element. Replaces only XML's own entities and fetches nothing. Throws UsageError, with
/// the line, for invalid XML or more than 100 nested levels, and if no XML library is built in.
Element parse_xml(const Text& text);

}  // namespace rankmesh::cluster_files
