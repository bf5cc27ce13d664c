// SPDX-License-Identifier: Apache-2.0
#include "fake/nccl/config.hpp"

namespace fake_nccl {

void configure(Communicator& made, const ncclConfig_t* passed, const Communicator* parent, const char* call) {
    if (!passed) {
        if (parent) made.config = parent->config;
        made.config.commName = nullptr;
        return;
    }
    const auto usual = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
    if (passed->magic != usual.magic || passed->size != usual.size || passed->version != usual.version)
        throw Failure{ncclInvalidArgument,
                      text(call, ": the configuration did not begin as NCCL_CONFIG_INITIALIZER")};
    const auto within = [&](const char* name, int value, int least, int most) {
        if (value != NCCL_CONFIG_UNDEF_INT && (value < least || value > most))
            throw Failure{ncclInvalidArgument,
                          text(call, ": ", name, "=", value, " is not within ", least, "..", most)};
    };
    within("blocking", passed->blocking, 0, 1);
    within("cgaClusterSize", passed->cgaClusterSize, 0, 8);
    within("minCTAs", passed->minCTAs, 1, 64);
    within("maxCTAs", passed->maxCTAs, 1, 64);
    if (passed->minCTAs > passed->maxCTAs)  // also where only the first is given: undefined is the least int
        throw Failure{ncclInvalidArgument,
                      text(call, ": minCTAs=", passed->minCTAs, " and maxCTAs=", passed->maxCTAs)};
    within("splitShare", passed->splitShare, 0, 1);
    within("shrinkShare", passed->shrinkShare, 0, 1);
    within("collnetEnable", passed->collnetEnable, 0, 1);
    within("CTAPolicy", passed->CTAPolicy, NCCL_CTA_POLICY_DEFAULT,
           NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO);
    made.config = *passed;
    if (passed->commName) made.name = text('"', passed->commName, '"');
    made.config.netName = nullptr;  // which need not live any longer, as the other must
}

std::string must_be_equal(const ncclConfig_t& config) {
    auto said = std::string{};
    const auto add = [&](const char* name, int value) {
        if (value != NCCL_CONFIG_UNDEF_INT) said += text(said.empty() ? "" : " ", name, "=", value);
    };
    add("minCTAs", config.minCTAs);
    add("maxCTAs", config.maxCTAs);
    add("splitShare", config.splitShare);
    add("shrinkShare", config.shrinkShare);
    add("collnetEnable", config.collnetEnable);
    add("CTAPolicy", config.CTAPolicy);
    add("nvlsCTAs", config.nvlsCTAs);
    add("nChannelsPerNetPeer", config.nChannelsPerNetPeer);
    return said.empty() ? "nothing" : said;
}

void demand_equal(const Communicator& made, int other, const std::string& theirs, const char* call) {
    const auto own = must_be_equal(made.config);
    if (theirs != own)
        violation(call, " makes communicator ", made.name, " with ", own, ", on rank ", other, " with ",
                  theirs, "; all of its ranks must configure it alike");
}

}  // namespace fake_nccl
