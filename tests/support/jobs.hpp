// SPDX-License-Identifier: Apache-2.0
// Random texts of jobs: parts over different ranks, meshes over the same ranks.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <rankmesh/core/mesh.hpp>

namespace rankmesh::tests {

struct RandomJob {
    std::vector<std::vector<Mesh>> parts;
    std::vector<bool> begins;  ///< the text says where the part begins

    int extent() const { return parts.back()[0].extent(); }
    /// The text; the outermost size of the meshes of part `rest` is `*`.
    std::string text(int rest = -1) const {
        auto all = std::string{};
        for (std::size_t p = 0; p < parts.size(); ++p)
            for (const auto& mesh : parts[p]) {
                auto one = to_string(begins[p] ? mesh : mesh.shifted(-mesh.offset()));
                if (static_cast<int>(p) == rest) {
                    const auto size = one.find('=') + 1;
                    one.replace(size, std::min(one.find(' '), one.size()) - size, "*");
                }
                all += (all.empty() ? "" : &mesh == &parts[p][0] ? " + " : "; ") + one;
            }
        return all;
    }
};

/// A plain mesh of `ranks` ranks from `first` on, whose axes are among `names`.
inline Mesh random_mesh(std::mt19937& random, std::vector<std::string> names, int ranks, int first) {
    std::ranges::shuffle(names, random);
    auto axes = std::vector<Axis>{};
    for (const auto& name : names) {
        auto size = ranks;
        if (&name != &names.back())
            for (size = static_cast<int>(random() % 6) + 1; ranks % size != 0;) --size;
        axes.push_back({name, size});
        ranks /= size;
    }
    return Mesh(std::span<const Axis>(axes)).shifted(first);
}

/// One to three parts of up to two meshes; some have servers, and with `gaps` some begin behind a gap.
inline RandomJob random_job(std::mt19937& random, bool gaps = true) {
    auto job = RandomJob{};
    auto first = 0;
    for (auto parts = random() % 3 + 1; parts > 0; --parts) {
        job.begins.push_back(random() % 3 == 0);
        if (job.begins.back() && gaps) first += static_cast<int>(random() % 5);
        const auto ranks = std::vector{1, 2, 4, 6, 8, 12, 16}[random() % 7];
        auto& part = job.parts.emplace_back();
        if (random() % 3 == 0)
            part.push_back(random_mesh(random, {"servers", "pp", "tp"}, ranks, first));
        else
            part.push_back(random_mesh(random, {"pp", "dp", "tp"}, ranks, first));
        if (random() % 2 == 0 && !part[0].find("servers"))
            part.push_back(random_mesh(random, {"edp", "ep"}, ranks, first));
        first += ranks;
    }
    return job;
}

}  // namespace rankmesh::tests
