// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rankmesh {

/// What the communicators of one rank hold of its process and of its device. In checked mode that is also
/// what compares their calls, which is not released while they are suspended.
struct Usage {
    /// One communicator, under the name of the set of axes that it was made for first: sets that share it are
    /// not listed again.
    struct Communicator {
        std::string axes;        // `dp,tp`, or the name of a pick, of a separate one or of a group
        std::string label;       // `'dp,tp' of mesh 'dense'`
        int size = 1;            // its ranks
        int connections = 0;     // to other processes
        int descriptors = 0;     // open files of this process, as /proc/self/fd counts them
        bool suspended = false;  // it holds nothing but what cannot be released
        /// Bytes of the device's memory that its library has allocated for it, nothing where that is unknown.
        std::optional<std::size_t> device_bytes = std::nullopt;
    };
    std::vector<Communicator> communicators = {};  // of two or more ranks, in the order of creation

    /// The sums over all of them.
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
