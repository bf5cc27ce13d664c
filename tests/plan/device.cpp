// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/device.hpp>

#include <gtest/gtest.h>

#include <string>

#include <rankmesh/plan/job.hpp>

#include "plan/csv.hpp"
#include "support/text_of.hpp"

namespace rankmesh::plan {
namespace {

constexpr auto names =
    "device,bf16_dense_tflops,fp8_dense_tflops,hbm_gb,hbm_tb_s,scaleup_gb_s_per_dir,scaleup_size,scaleout_gb_"
    "s_per_gpu,"
    "gemm_achieved_tflops,source\n";

TEST(Devices, AreFoundInAnyCaseAndNameTheirSource) {
    EXPECT_EQ(device("h100-sxm-80gb").name, "H100-SXM-80GB");
    for (const auto& one : devices()) {
        EXPECT_NO_THROW(check(one));
        EXPECT_FALSE(one.source.empty()) << one.name;
        EXPECT_LE(one.gemm_rate, one.dense_rate) << one.name;
        EXPECT_EQ(&device(one.name), &one);
    }
    const auto text = text_of([] { device("B20"); });
    EXPECT_TRUE(text.starts_with("unknown device 'B20'; did you mean 'B200'?; devices are A100-SXM-40GB, "))
        << text;
}

TEST(Devices, OfTheSameConstantsAreOneWithAliases) {
    EXPECT_EQ(device("h100").name, "H100-SXM-80GB");
    EXPECT_EQ(device("B200-SXM").name, "B200");
    for (const auto& one : devices()) {
        for (const auto& alias : one.aliases) EXPECT_EQ(&device(alias), &one) << alias;
        for (const auto& other : devices()) {
            if (&one == &other) continue;
            auto same = other;
            same.name = one.name;
            same.aliases = one.aliases;
            same.source = one.source;
            EXPECT_FALSE(same == one) << one.name << " and " << other.name;
        }
    }
}

TEST(Devices, AreReadFromATableOfTheSameColumns) {
    const auto read = [](const std::string& line) { return read_devices(names + line, "mine.csv"); };
    const auto one = read("X1,100,200,32,1.5,300,8,25,80,me\n").at(0);
    EXPECT_EQ(one.dense_rate, 100e12);
    EXPECT_EQ(one.memory, 32000000000);
    EXPECT_EQ(one.sustained, 1);
    EXPECT_EQ(read("X1,100,,32,1.5,300,8,,,me\n").at(0).gemm_rate, 80e12);  // as docs/plan-model.md says
    const auto text = [&](const std::string& line) { return text_of([&] { read(line); }); };
    EXPECT_EQ(text("X1,nan,,32,1.5,300,8,,,me\n"),
              "mine.csv:2: has 'nan' as bf16_dense_tflops, which is not a number of 0 or more");
    EXPECT_EQ(text("X1,-1,,32,1.5,300,8,,,me\n"),
              "mine.csv:2: has '-1' as bf16_dense_tflops, which is not a number of 0 or more");
    EXPECT_EQ(text("X1,100,,32,1.5,300,8.5,,,me\n"),
              "mine.csv:2: has '8.5' as scaleup_size, which is not a whole number from 0 to 2147483647");
    EXPECT_EQ(text("X1,100,,,1.5,300,8,,,me\n"),
              "mine.csv:2: the device 'X1' has a memory of 0.000000; it takes more than 0 and at most 1e21");
    EXPECT_EQ(text("X1,100\n"), "mine.csv:2: has 2 fields, but the first line names 10");
    EXPECT_EQ(text_of([] { read_devices("device\nX1\n", "mine.csv"); }),
              "mine.csv:1: has no column 'bf16_dense_tflops'");
    EXPECT_EQ(text_of([] { read_devices("", "mine.csv"); }),
              "mine.csv: is empty; the first line names the columns");
    EXPECT_EQ(text_of([] { read_devices("\"device", "mine.csv"); }),
              "mine.csv:1: has a quote that does not end");
    EXPECT_EQ(text_of([] { read_devices("device,device\n", "mine.csv"); }),
              "mine.csv:1: names the column 'device' twice");
}

TEST(Machines, TakeBandwidthsFromTheClusterAndElseFromTheDevice) {
    const auto& h100 = device("H100");
    const auto said = machine(Cluster::parse("node:4(200GB/s) gpu:8(300GB/s)"), h100);
    EXPECT_EQ(said.node, 8);
    EXPECT_EQ(said.scale_up, 300e9);
    EXPECT_EQ(said.scale_out, 25e9);
    const auto usual = machine(Cluster::parse("node:4 gpu:8"), h100);
    EXPECT_EQ(usual.scale_up, h100.scale_up_bandwidth);
    EXPECT_EQ(usual.scale_out, h100.scale_out_bandwidth);
    auto unknown = h100;
    unknown.scale_out_bandwidth = 0;
    EXPECT_EQ(text_of([&] { machine(Cluster::parse("node:4 gpu:8"), unknown); }),
              "the cluster 'node:4 gpu:8' does not say what the link of one 'node' carries, and "
              "'H100-SXM-80GB' has no typical one; add it, such as node:4(400GB/s)");
    EXPECT_EQ(machine(Cluster::parse("gpu:8"), unknown).scale_out, h100.scale_up_bandwidth);
}

TEST(Stacks, AreTheLongestNameThatTheFrameworkBeginsWith) {
    EXPECT_EQ(stack("Megatron-LM").name, "Megatron-LM");
    EXPECT_EQ(stack("megatron-lm 23e00ed0 + TE 2.11").name, "Megatron-LM 23e00ed0");
    EXPECT_EQ(stack("something else").name, stacks().front().name);
    for (const auto& one : stacks()) EXPECT_FALSE(one.source.empty()) << one.name;
}

}  // namespace
}  // namespace rankmesh::plan
