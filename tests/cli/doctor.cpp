// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/nccl.hpp>

#include "cli/devices.hpp"
#include "cli/rankmesh.hpp"

namespace rankmesh::tests {
namespace {

nlohmann::json doctor(const std::string& environment, const std::string& words = "") {
    return json_of("doctor --json " + words, environment);
}

std::string fact(const nlohmann::json& json, const std::string& name) {
    for (const auto& each : json["facts"])
        if (each["name"] == name) return each["text"];
    return {};
}

nlohmann::json step(const nlohmann::json& json, const std::string& name) {
    for (const auto& each : json["steps"])
        if (each["name"] == name) return each;
    return {};
}

}  // namespace

TEST(DoctorSubcommand, WithoutNcclSaysWhatIsMissing) {
    const auto outcome = rankmesh("doctor 2>/dev/null", "export LD_LIBRARY_PATH=;");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.output.find("\nGPUs          0\n"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find(nccl::is_built() ? "\nproblem       libnccl.so.2 not found; install NCCL"
                                                   : "\nproblem       this program's rankmesh has no NCCL"),
              std::string::npos)
        << outcome.output;
    EXPECT_NE(outcome.output.find("\nnot run  join        NCCL or a GPU is missing\n"), std::string::npos);
    EXPECT_TRUE(outcome.output.ends_with("\nNCCL was not checked: NCCL or a GPU is missing\n"))
        << outcome.output;
}

TEST(DoctorSubcommand, RunsEachStepOnDevices) {
    if (!nccl::is_built() || !gloo::is_built()) GTEST_SKIP() << "built without NCCL or Gloo";
    const auto json = doctor(with_devices(4) + "export RANKMESH_SECRET=abc NCCL_ALGO=Ring;");
    EXPECT_EQ(json["ok"], true) << json.dump(2);
    EXPECT_EQ(json["steps"].size(), 6u);
    for (const auto& each : json["steps"]) EXPECT_EQ(each["state"], "ok") << each;
    EXPECT_EQ(fact(json, "GPUs"), "4");
    EXPECT_EQ(fact(json, "NCCL_ALGO"), "Ring");
    EXPECT_EQ(fact(json, "RANKMESH_SECRET"), "(set)");
    EXPECT_EQ(fact(json, "problem"), "");
    EXPECT_EQ(rankmesh("doctor --gpus 3 2>/dev/null", with_devices(4)).exit_code, 0);
}

TEST(DoctorSubcommand, NamesTheCallThatFails) {
    if (!nccl::is_built() || !gloo::is_built()) GTEST_SKIP() << "built without NCCL or Gloo";
    const auto json = doctor(with_devices(2) + "export FAKE_FAIL=ncclReduceScatter;");
    EXPECT_EQ(json["ok"], false);
    EXPECT_EQ(step(json, "join")["state"], "ok");
    EXPECT_EQ(step(json, "operations")["state"], "failed");
    const auto text = step(json, "operations")["text"].get<std::string>();
    EXPECT_NE(text.find("ncclReduceScatter fails"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("(in 'scan')")) << text;  // which NCCL has by that
}

TEST(DoctorSubcommand, OutlivesALibraryThatCrashes) {
    if (!nccl::is_built() || !gloo::is_built()) GTEST_SKIP() << "built without NCCL or Gloo";
    const auto outcome =
        rankmesh("doctor --gpus 2 2>/dev/null", with_devices(2) + "export FAKE_PATIENCE=1 FAKE_LAG=20000;");
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_NE(outcome.output.find("was ended by signal 6 (Aborted)"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("violation: "), std::string::npos) << outcome.output;
}

TEST(DoctorSubcommand, NamesVersionsWithFaultsAndWithoutTests) {
    if (!nccl::is_built()) GTEST_SKIP() << "built without NCCL";
    const auto programs = std::string(
        "cd $(mktemp -d); mkdir bin; export PATH=$PWD/bin:$PATH;"
        "printf '#!/bin/sh\necho Debian clang version 17.0.6 1' > bin/c++;"
        "printf '#!/bin/sh\necho Python 3.14.0\necho PyTorch 2.13.0' > bin/python3; chmod +x bin/*;");
    const auto json = doctor(with_devices(1) + programs + "export FAKE_NCCL_VERSION=22902;");
    EXPECT_TRUE(fact(json, "versions").starts_with("clang=17.0.6,python=3.14.0,torch=2.13.0,")) << json;
    EXPECT_TRUE(fact(json, "versions").ends_with(",nccl=2.29.2")) << json;
    EXPECT_TRUE(
        fact(json, "warning").starts_with("not tested with Clang 17.0.6 (tested: 16), Python 3.14.0"));
    const auto text = json["facts"].dump();
    EXPECT_NE(text.find("NCCL 2.29.2: under PyTorch, a job hangs"), std::string::npos) << text;
    EXPECT_NE(text.find("PyTorch 2.13.0: with NCCL, a rank"), std::string::npos) << text;
    EXPECT_EQ(text.find("NCCL 2.31.2"), std::string::npos) << text;
}

TEST(DoctorSubcommand, ComparesVersionsAndVisibleDevices) {
    if (!nccl::is_built()) GTEST_SKIP() << "built without NCCL";
    EXPECT_EQ(fact(doctor(with_devices(2) + "export FAKE_NCCL_VERSION=22705;"), "problem"),
              "libnccl.so.2 is NCCL 2.27.5; 2.28.0 or later is needed");
    EXPECT_TRUE(fact(doctor(with_devices(2) + "export FAKE_DRIVER=12000;"), "problem")
                    .starts_with("no NVIDIA driver"));
    EXPECT_EQ(fact(doctor(with_devices(1) + "export LOCAL_WORLD_SIZE=4;"), "problem"),
              "LOCAL_WORLD_SIZE is 4, but each process sees 1 GPU; NCCL does not allow two ranks on one GPU");
    const auto outcome = rankmesh("doctor --gpus 3", with_devices(2));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.output,
              "rankmesh: --gpus is 3, but this process sees 2; check CUDA_VISIBLE_DEVICES, or set "
              "NCCL_MULTI_RANK_GPU_ENABLE=1 for several ranks on a GPU (NCCL 2.30 and later)\n");
    const auto alone = doctor(with_devices(1));
    for (const auto& each : alone["steps"]) EXPECT_EQ(each["text"], "it requires 2 GPUs");
    EXPECT_EQ(doctor(with_devices(1) + "export NCCL_MULTI_RANK_GPU_ENABLE=1;", "--gpus 2")["ok"], true);
}

}  // namespace rankmesh::tests
