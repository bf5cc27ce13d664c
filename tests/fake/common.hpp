// SPDX-License-Identifier: Apache-2.0
// What both fake libraries need: a way to say what was done wrong, and settings from the environment.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string>

namespace fake_common {

template <class... T>
std::string text(const T&... parts) {
    auto out = std::ostringstream{};
    (out << ... << parts);
    return out.str();
}

/// What the real library would answer with a hang, a crash or wrong data ends the process with one sentence.
template <class... T>
[[noreturn]] void violation(const char* library, const T&... parts) {
    static auto& only_one_speaks = *new std::mutex();
    only_one_speaks.lock();
    std::fprintf(stderr, "fake %s: violation: %s\n", library, text(parts...).c_str());
    std::fflush(stderr);
    std::abort();
}

inline int setting(const char* name, int otherwise) {
    const auto* value = std::getenv(name);
    return value ? std::atoi(value) : otherwise;
}

/// The call that FAKE_FAIL names fails.
inline bool is_planted(const char* call) {
    const auto* name = std::getenv("FAKE_FAIL");
    return name && std::string(name) == call;
}

}  // namespace fake_common
