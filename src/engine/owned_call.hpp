// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <rankmesh/engine/detail/call.hpp>

namespace rankmesh::detail {

/// A call that owns its counts, and so may outlive the caller's.
struct OwnedCall : Call {
    /// `size` is that of the group, and so the number of counts.
    OwnedCall(const Call& call, std::size_t size) : Call(call) {
        if (call.in_counts) in_counts = own(own_in_counts_, call.in_counts, size);
        if (call.out_counts) out_counts = own(own_out_counts_, call.out_counts, size);
    }
    OwnedCall(OwnedCall&&) noexcept = default;  // the memory of the vectors stays where it is
    OwnedCall& operator=(OwnedCall&&) noexcept = default;

    /// Reads from a copy of the input from now on: for operations that write their buffer before they have
    /// read all of it.
    void copy_input() {
        const auto* bytes = static_cast<const char*>(in);
        input_.assign(bytes, bytes + in_bytes());
        in = input_.data();
    }

private:
    static const std::size_t* own(std::vector<std::size_t>& counts, const std::size_t* given,
                                  std::size_t size) {
        counts.assign(given, given + size);
        return counts.data();
    }
    std::vector<std::size_t> own_in_counts_;
    std::vector<std::size_t> own_out_counts_;
    std::vector<char> input_;
};

}  // namespace rankmesh::detail
