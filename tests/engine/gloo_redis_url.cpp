// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <rankmesh/core/error.hpp>

#include "engine/store/url.hpp"

namespace rankmesh::detail {
namespace {

std::string error_of(const std::string& url) {
    try {
        RedisUrl::parse(url);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "nothing was thrown";
}

constexpr auto form =
    "; write redis://HOST:PORT or redis://HOST:PORT/DATABASE, such as redis://10.0.0.1:6379";

}  // namespace

TEST(RedisUrl, IsAHostAPortAndADatabase) {
    const auto same = [](const std::string& url, const std::string& host, int port, int database) {
        const auto parsed = RedisUrl::parse(url);
        EXPECT_EQ(parsed.host, host) << url;
        EXPECT_EQ(parsed.port, port) << url;
        EXPECT_EQ(parsed.database, database) << url;
        EXPECT_EQ(RedisUrl::parse(parsed.text()).text(), parsed.text()) << url;
        return parsed.text();
    };
    EXPECT_EQ(same("redis://10.0.0.1:4711/3", "10.0.0.1", 4711, 3), "redis://10.0.0.1:4711/3");
    EXPECT_EQ(same("redis://head", "head", 6379, 0), "redis://head:6379");
    EXPECT_EQ(same("redis://head/", "head", 6379, 0), "redis://head:6379");
    EXPECT_EQ(same("redis://head/2", "head", 6379, 2), "redis://head:6379/2");
    EXPECT_EQ(same("redis://[::1]:6379", "::1", 6379, 0), "redis://[::1]:6379");
    EXPECT_EQ(same("redis://[fe80::1%eth0]/1", "fe80::1%eth0", 6379, 1), "redis://[fe80::1%eth0]:6379/1");
}

TEST(RedisUrl, IsToldFromAFolder) {
    for (const auto* url :
         {"redis://head", "redis:head", "rediss://head", "tcp://head:1", "tcp:head", "redis:/head"})
        EXPECT_TRUE(is_url(url)) << url;
    for (const auto* folder : {"/shared/run", "run", "redis", "/data/redis:1", "a:b", "me@home/run"})
        EXPECT_FALSE(is_url(folder)) << folder;
}

TEST(RedisUrl, SaysWhatIsWrongAndWhatIsRight) {
    const auto none = std::string("' is neither a folder, a Redis server nor a port of rank 0");
    const auto or_tcp = std::string(", or tcp://HOST:PORT for a store that rank 0 serves there");
    EXPECT_EQ(error_of("http://head:1"), "the store 'http://head:1" + none + form + or_tcp);
    EXPECT_EQ(error_of("reddis://head"),
              "the store 'reddis://head" + none + "; did you mean 'redis'?" + form + or_tcp);
    EXPECT_EQ(error_of("redis:head:1"), "the store 'redis:head:1" + none + form + or_tcp);
    EXPECT_EQ(
        error_of("rediss://head"),
        std::string("the store 'rediss://head' is to be reached by TLS, which rankmesh does not speak") +
            form);
    EXPECT_EQ(error_of("redis://"), std::string("the store 'redis://' names no host") + form);
    EXPECT_EQ(error_of("redis://:1"), std::string("the store 'redis://:1' names no host") + form);
    for (const auto* port : {"0", "65536", "x", "", "6379x", "-1"})
        EXPECT_EQ(error_of(std::string("redis://h:") + port),
                  std::string("the store 'redis://h:") + port + "' has the port '" + port +
                      "', which is no whole number of 1 to 65535" + form);
    EXPECT_EQ(
        error_of("redis://h/jobs"),
        std::string(
            "the store 'redis://h/jobs' has the database 'jobs', which is no whole number of 0 to 1000000") +
            form);
    EXPECT_EQ(error_of("redis://::1:6379"),
              "the store 'redis://::1:6379' has more than one ':' in '::1:6379'; an IPv6 address stands in "
              "brackets, "
              "such as redis://[::1]:6379");
    EXPECT_EQ(error_of("redis://[::1"),
              std::string("the store 'redis://[::1' has a '[' without a ']'") + form);
    EXPECT_EQ(error_of("redis://[::1]x"),
              std::string("the store 'redis://[::1]x' has 'x' behind the address") + form);
    EXPECT_EQ(error_of("redis://[[]"),
              std::string("the store 'redis://[[]' has a '[' or ']' inside its host '['") + form);
}

TEST(RedisUrl, APasswordInItIsRefusedAndNotRepeated) {
    for (const auto* url :
         {"redis://:secret@head", "redis://user:secret@head:1/2", "redis://secret@head", "redis:secret@head",
          "tcp://:secret@head", "redis://head?password=secret", "redis://head#secret"}) {
        EXPECT_EQ(error_of(url),
                  "the URL of the store says more than a host, a port and a database; others could read it "
                  "there, so a "
                  "password comes from RANKMESH_REDIS_PASSWORD or the file RANKMESH_REDIS_PASSWORD_FILE, a "
                  "user from "
                  "RANKMESH_REDIS_USER, and of the URL remains redis://HOST:PORT/DATABASE");
    }
}

}  // namespace rankmesh::detail
