// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "rankmesh.hpp"
#include "support/content.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

namespace fs = std::filesystem;

using support::content_of;

std::string in_quotes(const fs::path& path) { return "'" + path.string() + "'"; }

void expect_error(const std::string& words, int code, const std::string& text) {
    const auto outcome = rankmesh(words);
    EXPECT_EQ(outcome.exit_code, code) << words;
    EXPECT_EQ(outcome.output, "rankmesh: " + text + "\n") << words;
}

int files_in(const fs::path& folder) {
    return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(DrawSubcommand, WritesIntoAFileWhatItPrintsWithoutOne) {
    const auto folder = support::Folder();
    for (const auto& mesh : meshes())
        for (const auto* format : {"html", "svg", "txt"}) {
            const auto words = "draw " + quoted(mesh) + " --on 'node:50 gpu:3'";
            const auto path = fs::path(folder.path()) / ("picture." + std::string(format));
            const auto written = rankmesh(words + " --out " + in_quotes(path));
            EXPECT_EQ(written.exit_code, 0) << written.output;
            EXPECT_EQ(written.output, "");
            const auto printed = rankmesh(words + " --format " + format);
            EXPECT_EQ(printed.exit_code, 0);
            EXPECT_EQ(printed.output, content_of(path)) << mesh << ' ' << format;
        }
    EXPECT_EQ(files_in(folder.path()), 3);
    EXPECT_EQ(rankmesh("draw 'pp=2 dp=2 tp=4' --on 'node:2 gpu:8' --format txt").output,
              rankmesh("show 'pp=2 dp=2 tp=4' --on 'node:2 gpu:8' --width 80").output);
}

TEST(DrawSubcommand, TellsThePageAllThatItComputesFrom) {
    const auto data_of = [](const std::string& words) {
        const auto page = rankmesh("draw " + words + " --format html").output;
        const auto begin = page.find('>', page.find("id=\"data\"")) + 1;
        return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
    };
    const auto mesh = data_of("'a=(2,2):(8,1) b=4:2 @3' --on 'rack:2 node:2(1GB/s) gpu:8' --rank 3");
    EXPECT_EQ(mesh["mesh"], "a=(2,2):(8,1) b=4:2 @3");
    EXPECT_EQ(mesh["axes"], nlohmann::json::parse(R"([{"name":"a","digits":[[2,8],[2,1]]},
                                                      {"name":"b","digits":[[4,2]]}])"));
    EXPECT_EQ(mesh["offset"], 3);
    EXPECT_EQ(mesh["highest"], 18);
    EXPECT_EQ(mesh["ranks"], nullptr);
    EXPECT_EQ(mesh["focus"], 3);
    EXPECT_EQ(mesh["color"], 1);
    EXPECT_EQ(mesh["cluster"], nlohmann::json::parse(R"({"text":"rack:2 node:2(1GB/s) gpu:8","levels":[
        {"name":"rack","count":2},{"name":"node","count":2},{"name":"gpu","count":8}]})"));
    const auto placement = data_of("'a=2 b=2 @[3,1,2,0]' --color-by a");
    EXPECT_EQ(placement["ranks"], nlohmann::json::parse("[3,1,2,0]"));
    EXPECT_EQ(placement["cluster"], nullptr);
    EXPECT_EQ(placement["focus"], nullptr);
    EXPECT_EQ(placement["color"], 0);
    EXPECT_EQ(data_of("'pp=4 dp=512 tp=1'")["color"], 0);
    EXPECT_EQ(data_of("'pp=4 dp=256 tp=1'")["color"], 1);
}

TEST(DrawSubcommand, ReplacesAFileWholeOrNotAtAll) {
    const auto folder = support::Folder();
    const auto path = fs::path(folder.path()) / "mesh.svg";
    const auto link = fs::path(folder.path()) / "link.svg";
    std::ofstream(path) << "before";
    fs::permissions(path, fs::perms{0640});
    fs::create_symlink(path, link);
    // A file may have one block here, which the picture exceeds.
    const auto failed = rankmesh("draw 'dp=64' --out " + in_quotes(path), "trap '' XFSZ; ulimit -f 1;");
    EXPECT_EQ(failed.exit_code, 1);
    EXPECT_EQ(failed.output, "rankmesh: " + in_quotes(path) + " cannot be written: File too large\n");
    EXPECT_EQ(content_of(path), "before");
    EXPECT_EQ(files_in(folder.path()), 2);

    EXPECT_EQ(rankmesh("draw 'dp=64' --out " + in_quotes(link)).exit_code, 0);
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(content_of(path), rankmesh("draw 'dp=64' --format svg").output);
    EXPECT_EQ(fs::status(path).permissions(), fs::perms{0640});
    EXPECT_EQ(files_in(folder.path()), 2);

    const auto pipe = fs::path(folder.path()) / "pipe.svg";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    expect_error("draw dp=8 --out " + in_quotes(pipe), 2,
                 in_quotes(pipe) + " cannot be written: it is not a regular file");
    EXPECT_TRUE(fs::is_fifo(pipe));
    expect_error("draw dp=8 --out " + in_quotes(fs::path(folder.path()) / "none" / "mesh.svg"), 2,
                 in_quotes(fs::path(folder.path()) / "none" / "mesh.svg") +
                     " cannot be written: No such file or directory");
}

TEST(DrawSubcommand, SaysWhatItCannotDo) {
    expect_error("draw dp=8", 2,
                 "--out is missing; add --out FILE.html, or --format html to print the picture");
    expect_error("draw dp=8 --out mesh.png", 2,
                 "--out 'mesh.png' has no known file type; the name must end in .html, .svg, .txt");
    expect_error("draw dp=8 --out mesh.html --format svg", 2,
                 "--out 'mesh.html' is html, but --format is svg; remove --format");
    expect_error("draw dp=8 --format hmtl", 2,
                 "--format must be one of html, svg and txt, not 'hmtl'; did you mean 'html'?");
    expect_error("draw 'dp=8 tp=2' --format svg --color-by ttp", 2,
                 "mesh dp=8 tp=2 has no axis 'ttp'; did you mean 'tp'?");
    expect_error(
        "draw 'dp=8 tp=2' --format txt --color-by tp", 2,
        "--color-by requires html or svg, because text has no colours; remove it, or change the format");
    expect_error("draw dp=8 --format html --rank 8", 2,
                 "rank 8 is outside mesh dp=8, which covers ranks 0..7");
    expect_error("draw dp=8 --format html --on 'node:2 gpu:2'", 2,
                 "mesh dp=8 reaches rank 7, but cluster node:2 gpu:2 has 4 devices; it fits on node:4 gpu:2");
    expect_error(
        "draw dp=2000000 --format html", 2,
        "a page shows at most 1048576 ranks, not 2000000; the text and the SVG document fold what is large");
}

}  // namespace
}  // namespace rankmesh::tests
