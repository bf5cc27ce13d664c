// SPDX-License-Identifier: Apache-2.0
// Usage, the resources that communicators hold.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rankmesh {

/// The resources that the communicators of one rank hold in its process and on its device. Includes the
/// resources of checked mode, which suspending does not release.
struct Usage {
    /// One communicator, under the name of the first set of axes that uses it. Other sets that share it are
    /// not listed.
    struct Communicator {
        std::string axes;        // `dp,tp`, or the name of a pick, separate set or group
        std::string label;       // `'dp,tp' of mesh 'dense'`
        int size = 1;            // number of ranks
        int connections = 0;     // connections to other processes
        int descriptors = 0;     // open files of this process, as /proc/self/fd counts them
        bool suspended = false;  // true: holds only what cannot be released
        /// Bytes of device memory that the device library allocated for it; nullopt: unknown.
        std::optional<std::size_t> device_bytes = std::nullopt;
    };
    std::vector<Communicator> communicators = {};  // of two or more ranks, in the order of creation

    /// Return the sums over all communicators.
    int connections() const {
        auto all = 0;
        for (const auto& each : communicators) all += each.connections;
        return all;
    }
    int descriptors() const {
        auto all = 0;
        for (const auto& each : communicators) all += each.descriptors;
        return all;
    }
};

}  // namespace rankmesh
