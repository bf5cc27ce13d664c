// SPDX-License-Identifier: Apache-2.0
// Clusters from files: our own notation and TOML, and what sites have.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>

namespace rankmesh::cluster_files {

inline constexpr std::size_t most_bytes = std::size_t{8} << 20;  ///< of one file

/// A kind of file, by the name that chooses it.
struct Format {
    std::string_view name;
    std::string_view help;
};

/// All that are read.
std::vector<Format> formats();

/// Reads a text of the format of that name, or of the one that its content shows where that is empty.
///
/// `inside` lists the levels inside a node, `gpu:8(450GB/s)`, for a text that does not say how many devices a
/// node has. Throws UsageError that begins with `source`, and has the line where one is wrong.
Cluster read(const std::string& text, const std::string& source, std::string_view format = {},
             std::string_view inside = {});

/// The same of the file at `path`, of standard input where that is `-`.
Cluster read_file(const std::string& path, std::string_view format = {}, std::string_view inside = {});

/// True for what can only be meant as a file, since it is no notation of a cluster: `@FILE LEVELS`, `-`, a
/// path, or the name of a file that is there.
bool is_file(const std::string& text);

/// Reads CLUSTER as a command takes it: the notation, or a file, behind which the levels inside a node may
/// stand: `@hosts gpu:8`.
Cluster read_argument(const std::string& text, std::string_view format = {});

/// What this process sees of the machines that it is on.
struct Seen {
    Cluster cluster;
    std::string by;  ///< `SLURM_JOB_NODELIST`, `NVML` or `hwloc`
};

/// The nodes and tasks of a job of Slurm, else the GPUs of this machine, else its cores; throws UsageError
/// where nothing of them is known.
Seen see_here();

}  // namespace rankmesh::cluster_files
