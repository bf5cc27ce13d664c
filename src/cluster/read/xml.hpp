// SPDX-License-Identifier: Apache-2.0
// XML as a tree of elements; xml.cpp alone includes the library that reads it.
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

    /// The value of an attribute, "" where there is none.
    std::string_view operator[](std::string_view attribute) const {
        for (const auto& [name_of, value] : attributes)
            if (name_of == attribute) return value;
        return {};
    }
};

/// The element that holds all others. No entity but those of XML itself is replaced, and nothing is fetched.
/// Throws UsageError with the line where this is no XML or nests more than 100 levels deep, and where no
/// library for XML was built in.
Element parse_xml(const Text& text);

}  // namespace rankmesh::cluster_files
