// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace rankmesh::detail {

/// Notes that the processes of one job leave for each other, each written once.
class Store {
public:
    virtual ~Store() = default;
    /// Writes a note so that nobody sees a part of it; false if there is one of that name.
    virtual bool put(const std::string& name, const std::string& text) = 0;
    /// The note of that name, nothing if there is none yet.
    virtual std::optional<std::string> get(const std::string& name) = 0;
    virtual void remove(const std::string& name) noexcept = 0;
    /// Where the notes are, in words: `the store '/shared/run'`.
    virtual std::string text() const = 0;
    virtual const std::string& job() const = 0;
};

}  // namespace rankmesh::detail
