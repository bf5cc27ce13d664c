// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace rankmesh::detail {

/// A descriptor of a connection that a child which this process forks does not keep: else peers would not
/// notice that this process has ended as long as the child lives.
class ClosedInChildren {
public:
    /// `descriptor` is where its number stands, less than 0 while there is none.
    explicit ClosedInChildren(const int& descriptor);
    ~ClosedInChildren();
    ClosedInChildren(const ClosedInChildren&) = delete;
    ClosedInChildren& operator=(const ClosedInChildren&) = delete;

private:
    const int& descriptor_;
};

}  // namespace rankmesh::detail
