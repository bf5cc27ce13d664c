// SPDX-License-Identifier: Apache-2.0
#include "pretend/nccl/config.hpp"

namespace pretend_nccl {

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
    within("maxCTAs", passed->maxCTAs, passed->minCTAs == NCCL_CONFIG_UNDEF_INT ? 1 : passed->minCTAs, 64);
    within("splitShare", passed->splitShare, 0, 1);
    within("shrinkShare", passed->shrinkShare, 0, 1);
    within("collnetEnable", passed->collnetEnable, 0, 1);
    within("CTAPolicy", passed->CTAPolicy, NCCL_CTA_POLICY_DEFAULT,
           NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO);
    made.config = *passed;
    if (passed->commName) made.name = text('"', passed->commName, '"');
    made.config.commName = nullptr;  // which need not live any longer
    made.config.netName = nullptr;
}

}  // namespace pretend_nccl
