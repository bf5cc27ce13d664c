// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/mesh.hpp>

constexpr auto mesh = rankmesh::Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};

int main() { return mesh.coord(67)["pp"] == 1 ? 0 : 1; }
