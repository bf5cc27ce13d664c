// SPDX-License-Identifier: Apache-2.0
// rankmesh-golden FILE...: asks our frameworks what the original systems were asked, and compares every
// answer.
#include <cstdio>
#include <fstream>
#include <set>

#include "check.hpp"

namespace golden {

const std::vector<System>& systems() {
    static const auto all = std::vector<System>{
        areal_grid(),   areal_topology(),          deepspeed_groups(), deepspeed_topology(),
        llamafactory(), megatron_parallel_state(), olmo_mesh(),        picotron(),
        torchtitan(),   vllm_parallel_state()};
    return all;
}

namespace {

struct Totals {
    int passed = 0;
    int failed = 0;
    std::map<std::string, int> refused;  // by rule
};

const System* system_named(std::string_view name) {
    for (const auto& system : systems())
        if (system.name == name) return &system;
    return nullptr;
}

/// What is wrong with our answer to a case, "" if nothing is; `refused` gets the rules by which it was
/// refused.
std::string wrong_with(const System& system, const Case& test, std::vector<std::string>& refused) {
    const auto answer = system.kinds.find(test.kind);
    if (answer == system.kinds.end()) return "expected an answer got none: nobody here knows this kind";
    try {
        return difference(system, test, answer->second(test), refused);
    } catch (const rankmesh::frameworks::Error& error) {
        const auto got = Json{{"error", {{"fault", to_string(error.fault)}, {"text", error.what()}}}};
        auto found = difference(system, test, got, refused);
        const auto* refusal = dynamic_cast<const rankmesh::frameworks::Refusal*>(&error);
        if (found.empty() || !refusal) return found;
        refused.push_back(refusal->rule);
        return {};
    } catch (const std::exception& error) {
        return difference(system, test, Json{{"error", {{"fault", "of no kind"}, {"text", error.what()}}}},
                          refused);
    }
}

void check(const Json& file, bool list_refused, Totals& totals) {
    const auto name = file.at("system").get<std::string>();
    const auto* system = system_named(name);
    static const auto nothing = Json::object();
    const auto& meta = file.contains("meta") ? file["meta"] : nothing;
    for (const auto& entry : file.at("cases")) {
        const auto test = Case{name, entry.at("kind"), entry.at("config"), entry.at("expect"), meta};
        auto refused = std::vector<std::string>{};
        const auto wrong = system ? wrong_with(*system, test, refused)
                                  : "expected an answer got none: nobody here knows this system";
        const auto line = name + " " + test.kind + " " + test.config.dump();
        if (!wrong.empty()) {
            ++totals.failed;
            std::printf("%s: %s\n", line.c_str(), wrong.c_str());
            continue;
        }
        ++totals.passed;
        for (const auto& rule : std::set(refused.begin(), refused.end())) {
            ++totals.refused[rule];
            if (list_refused) std::printf("%s: refused, %s\n", line.c_str(), rule.c_str());
        }
    }
}

int run(const std::vector<std::string>& words) {
    auto totals = Totals{};
    auto list_refused = false;
    auto files = std::vector<std::string>{};
    for (const auto& word : words) {
        if (word == "--list-refused")
            list_refused = true;
        else
            files.push_back(word);
    }
    if (files.empty() || files.front().starts_with("-")) {
        std::fprintf(stderr, "usage: rankmesh-golden [--list-refused] FILE...\n");
        return 2;
    }
    for (const auto& path : files) {
        auto stream = std::ifstream(path);
        const auto file = stream ? Json::parse(stream, nullptr, false) : Json();
        if (!file.is_object() || !file.contains("system") || !file.contains("cases")) {
            std::fprintf(stderr, "rankmesh-golden: %s is no file of golden cases\n", path.c_str());
            return 2;
        }
        check(file, list_refused, totals);
    }
    auto refusals = std::string{};
    for (const auto& [rule, count] : totals.refused)
        refusals += (refusals.empty() ? "" : ", ") + rule + " " + std::to_string(count);
    std::printf("refused: %s\n", refusals.empty() ? "none" : refusals.c_str());
    std::printf("%d passed, %d failed\n", totals.passed, totals.failed);
    return totals.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace golden

int main(int argc, char** argv) {
    try {
        return golden::run({argv + 1, argv + argc});
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rankmesh-golden: %s\n", error.what());
        return 2;
    }
}
