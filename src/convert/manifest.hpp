// SPDX-License-Identifier: Apache-2.0
// Manifests of Kubernetes and files of Docker Compose, whose containers start jobs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convert/command_line.hpp"
#include "formats/json.hpp"

namespace rankmesh::conversion {

/// The command of a container, and how many times the manifest starts that job.
struct ManifestLaunch {
    std::vector<std::string> words;
    int jobs = 1;
    CommandLine job = {};  ///< of the words, without the host
};

/// True for an object, or a list of objects, of Kubernetes, and for services of Docker Compose.
bool is_manifest(const formats::Json& values);
/// Returns what starts a job of the framework: a container's `command` and `args`, with its `env`. Throws
/// UsageError if no container starts one, or several start jobs that differ in more than the host's rank.
ManifestLaunch launch_in(const formats::Json& manifest, std::string_view source, std::string_view framework);

}  // namespace rankmesh::conversion
