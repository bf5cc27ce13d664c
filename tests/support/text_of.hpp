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
