// SPDX-License-Identifier: Apache-2.0
#include "engine/store/stores.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cctype>
#include <cstring>
#include <filesystem>

#include "support/processes.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using detail::file_store;

TEST(FileStore, TakesNoFolderThatAnyoneElseMayWriteTo) {
    const auto folder = support::Folder();
    const auto store = folder.path() + "/store";
    const auto job = store + "/job";
    { const auto made = file_store(store, "job"); }
    for (const auto& path : {store, job})
        for (unsigned others = 0; others <= 07077; others = ((others | 0700) + 1) & ~0700U) {
            const auto mode = 0700U | others;
            ASSERT_EQ(chmod(path.c_str(), mode), 0);
            const auto opened = [&] { file_store(store, "job"); };
            if ((mode & S_IWGRP) == 0 && (mode & S_IWOTH) == 0) {
                EXPECT_NO_THROW(opened()) << mode;
                continue;
            }
            char text[8] = {};
            std::snprintf(text, sizeof text, "%04o", mode);
            EXPECT_EQ(text_of<UsageError>(opened),
                      "the store '" + path + "' can be written by others (mode " + text +
                          "); chmod 700 it, or name a folder that does not exist yet");
            ASSERT_EQ(chmod(path.c_str(), 0700), 0);
        }
}

TEST(FileStore, NamesItsFilesByPlainCharactersOnly) {
    const auto folder = support::Folder();
    const auto store = file_store(folder.path() + "/store", "a job");
    auto names = std::vector<std::string>{"..",
                                          "\001"
                                          "23"};  // beside character 123
    for (int c = 0; c < 256; ++c)
        for (auto begin : {"", "a"}) names.push_back(std::string(begin) + static_cast<char>(c));
    for (const auto& name : names) EXPECT_TRUE(store->set(name, "of " + name, {})) << name;
    for (const auto& name : names)
        EXPECT_EQ(store->get({name}, {}), (std::vector<std::optional<std::string>>{"of " + name}));
    auto files = std::size_t{0};
    for (const auto& job : std::filesystem::directory_iterator(folder.path() + "/store"))
        for (const auto& file : std::filesystem::directory_iterator(job)) {
            ++files;
            const auto name = file.path().filename().string();
            EXPECT_NE(name.front(), '.');
            for (auto c : name)
                EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || std::strchr(".-_%", c)) << name;
        }
    EXPECT_EQ(files, names.size());
}

TEST(FileStore, ALinkIsRefusedHoweverItIsWritten) {
    const auto folder = support::Folder();
    ASSERT_EQ(mkdir((folder.path() + "/elsewhere").c_str(), 0700), 0);
    ASSERT_EQ(symlink("elsewhere", (folder.path() + "/link").c_str()), 0);
    for (const auto* end : {"", "/", "//", "/.", "/./", "//.//."}) {
        const auto link = folder.path() + "/link";
        EXPECT_EQ(text_of<UsageError>([&] { file_store(link + end, "job"); }),
                  "the store '" + link + "' is no folder; name one that this user owns, or a new one")
            << end;
        EXPECT_TRUE(file_store(folder.path() + "/new" + end, "job")->set("a", "text", {})) << end;
        std::filesystem::remove_all(folder.path() + "/new");
    }
}

TEST(FileStore, WhatIsNoEntryIsRefusedWithoutWaiting) {
    const auto folder = support::Folder();
    const auto store = file_store(folder.path() + "/store", "job");
    const auto path = folder.path() + "/store/job/";
    ASSERT_EQ(mkfifo((path + "pipe").c_str(), 0600), 0);
    ASSERT_EQ(mkdir((path + "folder").c_str(), 0700), 0);
    ASSERT_EQ(symlink("/dev/zero", (path + "link").c_str()), 0);
    ASSERT_EQ(symlink("nowhere", (path + "nowhere").c_str()), 0);
    for (const auto* name : {"pipe", "folder", "link", "nowhere"}) {
        EXPECT_EQ(text_of<EngineFailure>([&] { store->get({name}, {}); }),
                  "the store: the entry '" + path + name +
                      "' is no file, which no rank has written; give the job a folder of its own");
        EXPECT_FALSE(store->set(name, "text", {})) << name;
    }
    ASSERT_TRUE(store->set("long", "", {}));
    ASSERT_EQ(truncate((path + "long").c_str(), (off_t{1} << 29) + 1), 0);
    EXPECT_EQ(text_of<EngineFailure>([&] { store->get({"long"}, {}); }),
              "the store: the entry '" + path +
                  "long' has 536870913 bytes, which no rank has written; give the job a folder of its own");
}
