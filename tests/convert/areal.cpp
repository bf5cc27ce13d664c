// SPDX-License-Identifier: Apache-2.0
// Texts of AReaL's allocation_mode, and what the parser of AReaL 1.0.4 (areal/api/alloc_mode.py) makes of
// them.
#include <gtest/gtest.h>

#include <algorithm>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

#include "convert/job.hpp"

namespace rankmesh::tests {
namespace {

struct Recorded {
    const char* text;
    std::vector<std::string> meshes;  // of each component
};

const auto read_by_areal = std::vector<Recorded>{
    {"sglang:d4t2+fsdp:d8", {"servers=4 pp=1 tp=2", "pp=1 dp=8 cp=1 tp=1"}},
    {"sglang[rollout]:d4t2p1+megatron[actor]:d4t2", {"servers=4 pp=1 tp=2", "pp=1 dp=4 cp=1 tp=2"}},
    {"megatron:(attn:d1p12t4|ffn:d1p12e4)", {"pp=12 dp=1 cp=1 tp=4; pp=12 edp=1 ep=4 etp=1"}},
    {"sglang[r]:d2+fsdp[a]:d4|fsdp[c]:d4",
     {"servers=2 pp=1 tp=1", "pp=1 dp=4 cp=1 tp=1", "pp=1 dp=4 cp=1 tp=1"}},
    {"sglang[r]:d2+fsdp[a]:d4+fsdp[c]:d4",
     {"servers=2 pp=1 tp=1", "pp=1 dp=4 cp=1 tp=1", "pp=1 dp=4 cp=1 tp=1"}},
    {"vllm:d2t4p2", {"servers=2 pp=2 tp=4"}},
    {"archon:p2d4c2t2e4", {"pp=2 dp=4 cp=2 tp=2; pp=2 edp=4 ep=4 etp=1"}},
    {"megatron:attn:d2c2t2|ffn:e4", {"pp=1 dp=2 cp=2 tp=2; pp=1 edp=2 ep=4 etp=1"}},
    {"fsdp : d4 t2", {"pp=1 dp=4 cp=1 tp=2"}},
    {"archon:t2d4t2+fsdp[x_1]:t2d2", {"pp=1 dp=4 cp=1 tp=2", "pp=1 dp=2 cp=1 tp=2"}},
    {"fsdp:attn:d2c4p1|ffn:e1+archon[b59]:t2t2d1d2", {"pp=1 dp=2 cp=4 tp=1", "pp=1 dp=2 cp=1 tp=2"}},
    {"sglang:p4p2+fsdp:t4d1t4t4", {"servers=1 pp=2 tp=1", "pp=1 dp=1 cp=1 tp=4"}},
    {"fsdp[c2]:d1d2t1d4+megatron:c2d4", {"pp=1 dp=4 cp=1 tp=1", "pp=1 dp=4 cp=2 tp=1"}},
    {"fsdp[a]:t2d2t2d1+megatron[b]:c2", {"pp=1 dp=1 cp=1 tp=2", "pp=1 dp=1 cp=2 tp=1"}},
    {"archon[b30]:e4d4c1", {"pp=1 dp=4 cp=1 tp=1; pp=1 edp=1 ep=4 etp=1"}},
    {"megatron[actor]:t4t4+fsdp[a50]:t1d1t2", {"pp=1 dp=1 cp=1 tp=4", "pp=1 dp=1 cp=1 tp=2"}},
    {"vllm[x_1]:p4p1t1t2+megatron:d2", {"servers=1 pp=1 tp=2", "pp=1 dp=2 cp=1 tp=1"}},
    {"fsdp:t4e1c4+fsdp[actor]:t2c2d2", {"pp=1 dp=1 cp=4 tp=4", "pp=1 dp=2 cp=2 tp=2"}},
    {"fsdp[rollout]:d2t1+vllm:d4", {"pp=1 dp=2 cp=1 tp=1", "servers=4 pp=1 tp=1"}},
    {"megatron:t4d2+archon:d1t1t4t2", {"pp=1 dp=2 cp=1 tp=4", "pp=1 dp=1 cp=1 tp=2"}},
    {"megatron[rollout]:c4c2+fsdp[b]:c2c4+fsdp[c2]:c2",
     {"pp=1 dp=1 cp=2 tp=1", "pp=1 dp=1 cp=4 tp=1", "pp=1 dp=1 cp=2 tp=1"}},
    {"megatron[a71]:d2c4t2c2+archon[a]:d1p1+fsdp[a7]:d2c4d4",
     {"pp=1 dp=2 cp=2 tp=2", "pp=1 dp=1 cp=1 tp=1", "pp=1 dp=4 cp=4 tp=1"}},
    {"megatron[b]:c2+sglang[b49]:d2", {"pp=1 dp=1 cp=2 tp=1", "servers=2 pp=1 tp=1"}},
    {"megatron[x_1]:p4p4t1c2+sglang:t1", {"pp=4 dp=1 cp=2 tp=1", "servers=1 pp=1 tp=1"}},
    {"megatron[b17]:p4p4c1t2+sglang[a]:d2t2d1+megatron[a51]:d4c2",
     {"pp=4 dp=1 cp=1 tp=2", "servers=1 pp=1 tp=2", "pp=1 dp=4 cp=2 tp=1"}},
    {"archon[actor]:t2t4d2+archon[rollout]:c1t2", {"pp=1 dp=2 cp=1 tp=4", "pp=1 dp=1 cp=1 tp=2"}},
    {"megatron[actor]:t2t1+sglang:t2t2p2t4", {"pp=1 dp=1 cp=1 tp=1", "servers=1 pp=2 tp=4"}},
    {"megatron:(attn:d4|ffn:e2d2d 2e2)", {"pp=1 dp=4 cp=1 tp=1; pp=1 edp=2 ep=2 etp=1"}},
    {"megatron:t2+megatron[actor]:t4p1", {"pp=1 dp=1 cp=1 tp=2", "pp=1 dp=1 cp=1 tp=4"}},
    {"megatron[b79]:t4d2t2|megatron[a66]:d1t2t2d2+fsdp[b]:t2d2t2",
     {"pp=1 dp=2 cp=1 tp=2", "pp=1 dp=2 cp=1 tp=2", "pp=1 dp=2 cp=1 tp=2"}},
    {"archon:t4c2c2c2+vllm[rollout]:t4p1", {"pp=1 dp=1 cp=2 tp=4", "servers=1 pp=1 tp=4"}},
    {"archon:c2+fsdp[c2]:t4d2", {"pp=1 dp=1 cp=2 tp=1", "pp=1 dp=2 cp=1 tp=4"}},
    {"sglang:d1p4d2+sglang[attnx]:t4p2p2p2", {"servers=2 pp=4 tp=1", "servers=1 pp=2 tp=4"}},
    {"vllm[b]:d2p2t2+megatron[c2]:t2t4", {"servers=2 pp=2 tp=2", "pp=1 dp=1 cp=1 tp=4"}},
    {"fsdp[b97]:d2t2t1+megatron[b]:t1+vllm[a]:d1t2+archon[b23]:t2d2e2c4",
     {"pp=1 dp=2 cp=1 tp=1", "pp=1 dp=1 cp=1 tp=1", "servers=1 pp=1 tp=2",
      "pp=1 dp=2 cp=4 tp=2; pp=1 edp=8 ep=2 etp=1"}},
    {"vllm[b]:t2p4+sglang[actor]:t4d4", {"servers=1 pp=4 tp=2", "servers=4 pp=1 tp=4"}},
    {"sglang:p4d2d2+fsdp:c1d2e1c4", {"servers=2 pp=4 tp=1", "pp=1 dp=2 cp=4 tp=1"}},
    {"archon:(attn:c4p2|ffn:e4e2)|fsdp[a11]:t4d1d2",
     {"pp=2 dp=1 cp=4 tp=1; pp=2 edp=2 ep=2 etp=1", "pp=1 dp=2 cp=1 tp=4"}},
    {"archon[rollout]:d4d1+megatron[x_1]:t1", {"pp=1 dp=1 cp=1 tp=1", "pp=1 dp=1 cp=1 tp=1"}},
    {"fsdp[b]:t1t2d4+archon[a57]:d4t4t4d1", {"pp=1 dp=4 cp=1 tp=2", "pp=1 dp=1 cp=1 tp=4"}},
    {"archon:c2d4+fsdp[c2]:d2", {"pp=1 dp=4 cp=2 tp=1", "pp=1 dp=2 cp=1 tp=1"}},
    {"megatron:t4c2c4+sglang[b]:d1p4", {"pp=1 dp=1 cp=4 tp=4", "servers=1 pp=4 tp=1"}},
    {"fsdp[b79]:t1c1c2+megatron[b]:c1d2+megatron[c2]:t2d1",
     {"pp=1 dp=1 cp=2 tp=1", "pp=1 dp=2 cp=1 tp=1", "pp=1 dp=1 cp=1 tp=2"}},
    {"sglang[c2]:t2+megatron[b65]:t1+fsdp[b]:d2",
     {"servers=1 pp=1 tp=2", "pp=1 dp=1 cp=1 tp=1", "pp=1 dp=2 cp=1 tp=1"}},
    {"fsdp[x_1]:d1d2+archon[c2]:t1", {"pp=1 dp=2 cp=1 tp=1", "pp=1 dp=1 cp=1 tp=1"}}};

const auto refused_by_areal = std::vector<std::string>{"fsdp:d4p2",
                                                       "fsdp:d4e2",
                                                       "d4t2",
                                                       "[actor]:d4",
                                                       "sglang.d4",
                                                       "fsdp:d0",
                                                       "fsdp:d04",
                                                       "fsdp:",
                                                       "sglang[a]:d2+fsdp[a]:d4",
                                                       "sglang:d2+fsdp:d4+fsdp:d4",
                                                       "fsdp[a]:d4|fsdp:d4",
                                                       "fsdp[a]:d4|fsdp[b]:d8",
                                                       "megatron:(attn:d4p2|ffn:e4p4)",
                                                       "megatron:(attn:d4|ffn:e8)",
                                                       "megatron:d3e2",
                                                       "megatron[actor]:(attn:d4|ffn:e4)",
                                                       "sglang:d2c2",
                                                       "sglang:d2+",
                                                       "(attn:d2|ffn:e2)",
                                                       "fsdp[1a]:d2",
                                                       "fsdp:d1 2",
                                                       "fsdp[b]:c4|archon:t2t2p4",
                                                       "sglang:d1|mega:ron[b]:d1t1d1",
                                                       "fsdp[a]:p2+sglang:t1d1d2",
                                                       "p2t1+megatron[a]:t4d2t2d2+fsdp[x_1]:d1",
                                                       "fsdp:(attn:p2p4|ffn:t1t1t2d2)+:d1t4d2",
                                                       "megatron:t4p1p2+megatron:(attn:d4|ffn:p2p2)",
                                                       "megatron[c2]:e2t2+fsdp:e2e1e2+arch:n:c1",
                                                       "megatron:(attn:t1|ffn:p4e1p4e1)",
                                                       "vllmd4d4d1d4|megatron:d4t4d4d2",
                                                       "fsdp:t1d4+megatron:e1+[a]:d4t2+archon[ c2]:t1e2",
                                                       "fsdp:c2p1p2e2",
                                                       "fsdp:(attn:t2c1t4|ffn:e2p2)+archon:t1t1c1",
                                                       "vllm[actor]:t2t1t1+sglang:d2p1p4|t2d4d4",
                                                       "vllm[b68]:p1+fsdp[b]:d4d4d4p2",
                                                       "fsdp:(attn:d2c1|ffn:t2t1e2)|vllm[x_1]:t2d2p1t2",
                                                       "fsdp:attn:p2d1t2p2|ffn:d1d1t2+fsdp:t1",
                                                       "fsdp:attn:t4d4|ffn:e2",
                                                       "sglang[actor]:p1p4+megatron[a]:d4+megatron:t2c1",
                                                       "fsdp:(attn:p1|ffn:e2)",
                                                       "megatron:(attn:p10|ffn:e999999999t999999999)"};

/// The text without the mesh of experts of which none are parallel, which the original does not keep.
std::string without_single_experts(std::string text) {
    for (auto at = text.find("; pp="); at != text.npos; at = text.find("; pp=", at + 1)) {
        const auto end = std::min(text.find_first_of(",;", at + 1), text.size());
        if (text.substr(at, end - at).find(" ep=1 ") != text.npos) text.erase(at, end - at);
    }
    return text;
}

}  // namespace

TEST(Areal, EachComponentOfAnAllocationModeHasTheMeshThatTheOriginalSays) {
    for (const auto& [text, meshes] : read_by_areal) {
        if (meshes.size() == 1) {
            EXPECT_EQ(without_single_experts(convert_text("areal", "rankmesh", text).mesh_from), meshes[0])
                << text;
            continue;
        }
        // All components are one job; '+' parts have ranks of their own, '|' shares them.
        const auto job = conversion::parse_job(convert_text("areal", "rankmesh", text).mesh_from, {});
        auto found = std::vector<std::string>{};
        for (const auto& part : job.parts)
            for (const auto& mesh : part.meshes)
                found.push_back(to_string(mesh.mesh().shifted(-part.first())));
        auto expected = std::vector<std::string>{};
        for (const auto& component : meshes) {
            const auto own = conversion::parse_job(component, {}).meshes();
            for (const auto& mesh : own) expected.push_back(to_string(mesh));
        }
        std::erase_if(found, [&](const auto& mesh) { return mesh.find(" ep=1 ") != mesh.npos; });
        EXPECT_EQ(found, expected) << text;
        EXPECT_EQ(job.parts.size(),
                  1U + static_cast<std::size_t>(std::ranges::count(std::string_view(text), '+')))
            << text;
        const auto is_served = [](const std::string& mesh) { return mesh.starts_with("servers="); };
        if (meshes.size() == 2 && is_served(meshes[0]) != is_served(meshes[1])) {  // each to its own kind
            EXPECT_EQ(convert_text("areal", "vllm", text).mesh_from, meshes[is_served(meshes[0]) ? 0 : 1])
                << text;
            EXPECT_EQ(without_single_experts(convert_text("areal", "megatron", text).mesh_from),
                      meshes[is_served(meshes[0]) ? 1 : 0])
                << text;
        } else if (job.parts.size() > 1 && std::ranges::count_if(meshes, is_served) != 1) {
            EXPECT_THROW(convert_text("areal", "vllm", text), UsageError) << text;
        }
    }
}

TEST(Areal, WhatTheOriginalRefusesIsRefused) {
    for (const auto& text : refused_by_areal)
        EXPECT_THROW(convert_text("areal", "rankmesh", text), UsageError) << text;
}

TEST(Areal, AnAllocationModeIsReadInEveryForm) {
    for (const auto* text :
         {"megatron:d4p2", "allocation_mode=megatron:d4p2", "--allocation-mode megatron:d4p2",
          R"({"allocation_mode": "megatron:d4p2"})", "allocation_mode = \"megatron:d4p2\"\n"})
        EXPECT_EQ(convert_text("areal", "rankmesh", text).mesh_from, "pp=2 dp=4 cp=1 tp=1") << text;
    EXPECT_THROW(convert_text("areal", "rankmesh", "megatron:d4p2", 16), UsageError);
    try {
        convert_text("areal", "rankmesh", "fsdp:d8q2");
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(), "allocation_mode is 'fsdp:d8q2': 'q2' belongs to no component");
    }
}

}  // namespace rankmesh::tests
