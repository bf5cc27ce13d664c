// SPDX-License-Identifier: Apache-2.0
// The stand-in for a header of Gloo's that Debian leaves out gives its classes the size that the library
// knows.
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gtest/gtest.h>
#include <malloc.h>

TEST(GlooLayout, APairIsAsLargeAsTheLibraryMakesIt) {
    auto where = gloo::transport::tcp::attr("127.0.0.1");
    where.ai_family = AF_INET;
    const auto device = gloo::transport::tcp::CreateDevice(where);
    const auto context = device->createContext(0, 2);
    const auto size = malloc_usable_size(context->createPair(1).get());
    EXPECT_GE(size, sizeof(gloo::transport::tcp::Pair));
    EXPECT_LT(size, sizeof(gloo::transport::tcp::Pair) + 16);
}
