// SPDX-License-Identifier: Apache-2.0
// A conversion, and an error of it caught here by its type.
#include <cstdio>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

int main() {
    auto wrong = 0;
    const auto there =
        rankmesh::convert_text("torchtitan", "picotron", "[parallelism]\ntensor_parallel_degree = 2", 8);
    if (there.settings != R"({"distributed":{"tp_size":2,"cp_size":1,"pp_size":1,"dp_size":4}})") ++wrong;
    try {
        static_cast<void>(rankmesh::convert("picotron", "torchtitan", {"tp_sise=2"}));
        ++wrong;
    } catch (const rankmesh::UsageError&) {
    }
    std::printf("%d wrong\n", wrong);
    return wrong;
}
