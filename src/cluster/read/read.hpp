// SPDX-License-Identifier: Apache-2.0
// Reads clusters from files: rankmesh's notation and TOML, hostfiles, Slurm, and descriptions of machines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>

namespace rankmesh::cluster_files {

inline constexpr std::size_t most_bytes = std::size_t{32} << 20;  ///< of one file

/// A file format, by the name that selects it.
struct Format {
    std::string_view name;
    std::string_view help;
};

/// Returns all formats.
std::vector<Format> formats();

/// Reads a text in the named format; if `format` is empty, detects the format from the content.
///
/// `inside` lists the levels inside a node, `gpu:8(450GB/s)`, for a text that does not give the devices of a
/// node. `note`, if not null, gets what was left out, in words. Throws UsageError, which begins with `source`
/// and contains the line.
Cluster read(const std::string& text, const std::string& source, std::string_view format = {},
             std::string_view inside = {}, std::string* note = nullptr);

/// Reads the file at `path`; `-`: standard input.
Cluster read_file(const std::string& path, std::string_view format = {}, std::string_view inside = {},
                  std::string* note = nullptr);

/// Returns true for text that can only be a file, because it is not the notation of a cluster: `@FILE
/// LEVELS`, `-`, a path, or the name of an existing file.
bool is_file(const std::string& text);

/// Reads the argument CLUSTER of commands: the notation, or a file, optionally followed by the levels inside
/// a node: `@hosts gpu:8`.
Cluster read_argument(const std::string& text, std::string_view format = {}, std::string* note = nullptr);

/// The machines that this process can see, and the source of that information.
struct Seen {
    Cluster cluster;
    std::string by;  ///< `SLURM_JOB_NODELIST`, `NVML` or `hwloc`
};

/// Returns the nodes and tasks of a Slurm job, else the GPUs of this machine, else its cores. Throws
/// UsageError if nothing is known.
Seen see_here();

}  // namespace rankmesh::cluster_files
