// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Sets environment variables, which were not set before, during its lifetime.
class Variables {
public:
    Variables(std::initializer_list<std::pair<std::string, std::string>> values) {
        for (const auto& [name, value] : values) {
            setenv(name.c_str(), value.c_str(), 1);
            names_.push_back(name);
        }
    }
    ~Variables() {
        for (const auto& name : names_) unsetenv(name.c_str());
    }
    Variables(const Variables&) = delete;
    Variables& operator=(const Variables&) = delete;

private:
    std::vector<std::string> names_;
};

}  // namespace support
