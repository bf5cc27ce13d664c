// SPDX-License-Identifier: Apache-2.0
// The readers of each kind of file, and their common code.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>

namespace rankmesh::cluster_files {

using Levels = std::vector<Cluster::Level>;

/// A text and its source.
struct Text {
    std::string_view content;
    std::string source;

    /// Throws UsageError with the source, the line unless it is 0, and the reason.
    [[noreturn]] void fail(int line, std::string_view why) const;
    /// Returns the names in a list such as `a[01-31]`. Throws UsageError with the line.
    std::vector<std::string> names(std::string_view list, int line) const;
};

/// A line that is not blank or a comment, without its comment and surrounding blanks.
struct Line {
    int number = 0;
    std::string text;

    /// Returns the words between blanks.
    std::vector<std::string_view> words() const;
};

/// Returns the lines of a text. With `continued`, a line that ends with a backslash continues on the next
/// line.
std::vector<Line> lines_of(std::string_view text, bool continued = false);

/// Reads a whole number of at least `least`. Throws UsageError, which names it by `of`.
int number_of(const Text& text, int line, std::string_view digits, std::string_view of, int least);

/// Readers return levels, outermost first. If the units of the innermost level have count 0, they are nodes
/// whose content the file does not describe.
Levels read_toml(const Text& text);
Levels read_slurm(const Text& text);
Levels read_slurm_variables(const Text& text);
Levels read_hostfile(const Text& text);
Levels read_rankfile(const Text& text);
Levels read_nvidia_smi(const Text& text);
Levels read_hwloc(const Text& text);
Levels read_nccl(const Text& text);

/// Returns the GPUs of this machine from NVIDIA's driver; nullopt without a driver.
std::optional<Levels> see_nvml();
/// Returns the cores and GPUs of this machine on which this process may run; nullopt if hwloc is not built
/// in.
std::optional<Levels> see_hwloc();

/// A level over devices: for each device in order, its unit.
struct Division {
    std::string name;
    std::vector<int> units;
};

/// Returns the levels of successive divisions of devices, without divisions that split nothing. Throws
/// UsageError if the devices of a unit are not contiguous.
Levels levels_of(const Text& text, const std::vector<Division>& divisions, const std::string& device,
                 int devices);

/// Returns the levels of GPUs from the connection between each two: 0 NVLink, 1 a PCIe switch, 2 several PCIe
/// switches, 3 a host bridge, 4 the interconnect inside a NUMA node, 5 the one between NUMA nodes.
Levels levels_of_gpus(const Text& text, const std::vector<std::vector<int>>& distances);

/// Names that may be listed once, with their lines. Throws UsageError for a repeated name.
class UniqueNames {
public:
    UniqueNames(const Text& text, std::string_view what) : text_(text), what_(what) {}
    void add(const std::string& name, int line);

private:
    const Text& text_;
    std::string_view what_;
    std::map<std::string, int, std::less<>> lines_;
};

}  // namespace rankmesh::cluster_files
