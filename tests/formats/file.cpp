// SPDX-License-Identifier: Apache-2.0
#include "formats/file.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace rankmesh::formats {
namespace {

TEST(IsFileName, HoldsOfPathsEndingsAndFilesThatAreThereAndNotOfFolders) {
    const auto folder = std::filesystem::path(testing::TempDir()) / "rankmesh_file_names";
    std::filesystem::create_directories(folder / "tp");
    std::ofstream(folder / "hosts") << "a1\n";
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder);
    const auto is_file = [](const std::string& text) { return is_file_name(text, "={ ", {".json", ".sh"}); };
    for (const auto* text : {"hosts", "missing.json", "run.sh", "a/b", "/dev/stdin"})
        EXPECT_TRUE(is_file(text)) << text;
    for (const auto& text : {std::string(), std::string("tp"), std::string("missing"), std::string("tp=2"),
                             std::string("{a.json"), std::string("a b.json"), std::string(10'000, 'x')})
        EXPECT_FALSE(is_file(text)) << text;
    std::filesystem::current_path(before);
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rankmesh::formats
