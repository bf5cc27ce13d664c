// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

struct CommunicatorState;

/// Results of calls in staging memory, which are copied to the caller's buffers.
class Staged {
public:
    Staged() = default;
    virtual ~Staged() = default;
    Staged(const Staged&) = delete;
    Staged& operator=(const Staged&) = delete;

    /// Copies the results out, once the calls are complete; called inside a use of the channel.
    virtual void unpack(const CommunicatorState& state) = 0;

    /// Runs `body`; a Disagreement that it throws says also what this rank gave.
    template <class Body>
    void described(Body&& body) const {
        try {
            body();
        } catch (const Disagreement& error) {
            throw Disagreement(error.what() + text(), error.ranks);
        }
    }

private:
    virtual std::string text() const { return ""; }
};

}  // namespace rankmesh::detail
