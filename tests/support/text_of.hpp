// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

#include <rankmesh/core/error.hpp>

/// The text of the error that `body` throws, "" if it throws none of that type.
template <class E = rankmesh::UsageError, class Body>
std::string text_of(Body&& body) {
    try {
        body();
    } catch (const E& error) {
        return error.what();
    } catch (const std::exception& error) {
        ADD_FAILURE() << "another error: " << error.what();
    }
    return {};
}

/// The text of a timeout up to what the missing ranks were last seen doing, which has durations in it.
inline std::string without_seen(const std::string& text) {
    const auto end = std::string(" cannot be used any more");
    const auto found = text.find(end);
    return found == std::string::npos ? text : text.substr(0, found + end.size());
}
