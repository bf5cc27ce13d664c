// SPDX-License-Identifier: Apache-2.0
#include "engine/join/agree.hpp"

#include <algorithm>
#include <exception>

#include <rankmesh/core/text.hpp>

#include "engine/hash.hpp"
#include "engine/join/gather.hpp"
#include "engine/join/plan_classes.hpp"

namespace rankmesh::detail {
namespace {

/// All classes, on every rank.
std::vector<PlanClass> classes_of(Exchange& exchange, const std::string& description) {
    auto classes = std::vector<PlanClass>{{description, {exchange.rank()}}};
    return unpack(gather(
                      exchange,
                      [&](const std::string& bytes) {
                          for (auto& each : unpack(bytes, exchange.size())) merge(classes, std::move(each));
                      },
                      [&] {
                          fold(classes);
                          return pack(classes);
                      }),
                  exchange.size());
}

}  // namespace

void agree(Exchange& exchange, const std::string& description) {
    const auto a = static_cast<std::int64_t>(hash(description));
    const auto b = static_cast<std::int64_t>(hash(description, 0x9e3779b97f4a7c15U));
    // The complement turns a maximum into a minimum: all ranks are equal exactly if both are this rank's own.
    auto extremes = std::array<std::int64_t, 4>{a, ~a, b, ~b};
    exchange.max(extremes);
    // Every rank decides from the same four numbers, so all decide the same.
    if (extremes[0] == ~extremes[1] && extremes[2] == ~extremes[3]) return;

    const auto classes = classes_of(exchange, description);
    try {
        exchange.max(extremes);        // no rank throws, and then perhaps leaves, before all have the texts
    } catch (const std::exception&) {  // a rank is lost meanwhile: this one has them
    }
    throw_different("the ranks join different plans; every rank must declare the same:", classes);
}

}  // namespace rankmesh::detail
