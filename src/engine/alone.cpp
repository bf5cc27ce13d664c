// SPDX-License-Identifier: Apache-2.0
#include "engine/alone.hpp"

#include <array>
#include <cstring>

#include "engine/combine.hpp"

namespace rankmesh::detail {

void Alone::run(const Call& call, const Label&, Duration) {
    // With open edges this rank has no sender, unless the distance is 0.
    if (call.operation == Operation::shift && call.edge == Edge::open && call.argument != 0) return;
    if (call.operation == Operation::send_recv && call.in_count != call.out_count)
        throw UsageError(cat("a send_recv of ", call.in_count, " elements to oneself and ", call.out_count,
                             " from oneself; both must be equal"));
    if (call.operation == Operation::exclusive_scan) return fill_with_nothing(call);
    if (call.out != call.in && call.out_bytes() > 0) std::memcpy(call.out, call.in, call.out_bytes());
    if (!reduces(call.operation)) return;
    make_logical(call);
    if (needs_all(call.reduction))  // which may change a NaN
        combine(call, std::array<const void*, 1>{call.in}, call.out, call.out_count);
}

std::uint64_t Alone::start(std::span<const Call> calls, const Label& label) {
    for (const auto& call : calls) run(call, label, {});
    return 0;
}

}  // namespace rankmesh::detail
