// SPDX-License-Identifier: Apache-2.0
#include "cluster/read/xml.hpp"

namespace rankmesh::cluster_files {

Element parse_xml(const Text& text) {
    text.fail(0, "is XML, which this build cannot read; build with -DRANKMESH_XML=ON and pugixml");
}

}  // namespace rankmesh::cluster_files
