// SPDX-License-Identifier: Apache-2.0
// What each kind of file is read by, and what they share.
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

/// A text and where it is from.
struct Text {
    std::string_view content;
    std::string source;

    /// Throws UsageError with the source, the line unless it is 0, and what is wrong there.
    [[noreturn]] void fail(int line, std::string_view why) const;
    /// The names in a list such as `a[01-31]`; throws UsageError with the line.
    std::vector<std::string> names(std::string_view list, int line) const;
};

/// A line that is neither blank nor a comment, without its comment and the blanks around it.
struct Line {
    int number = 0;
    std::string text;

    /// The words between blanks.
    std::vector<std::string_view> words() const;
};

/// The lines of a text; with `continued` one that ends with a backslash goes on in the next.
std::vector<Line> lines_of(std::string_view text, bool continued = false);

/// A whole number of at least `least` in a line; throws UsageError that says what it is `of`.
int number_of(const Text& text, int line, std::string_view digits, std::string_view of, int least);

/// Levels outermost first; the innermost are nodes of which a file does not say what they hold where the
/// count of their units is 0.
Levels read_toml(const Text& text);
Levels read_slurm(const Text& text);
Levels read_slurm_variables(const Text& text);
Levels read_hostfile(const Text& text);
Levels read_rankfile(const Text& text);
Levels read_nvidia_smi(const Text& text);
Levels read_hwloc(const Text& text);
Levels read_nccl(const Text& text);

/// The GPUs of this machine that its driver knows, none without one.
std::optional<Levels> see_nvml();
/// The cores and GPUs of this machine on which this process may run; nothing where hwloc is not built in.
std::optional<Levels> see_hwloc();

/// A level over devices: for each of them in order, the unit in which it lies.
struct Division {
    std::string name;
    std::vector<int> units;
};

/// The levels of devices divided ever further, of which those that divide nothing more are left out; throws
/// UsageError where the devices of a unit are not in a row.
Levels levels_of(const Text& text, const std::vector<Division>& divisions, const std::string& device,
                 int devices);

/// The levels of GPUs of which each entry says what lies between two: 0 NVLink, 1 a PCIe switch, 2 several, 3
/// a host bridge, 4 the interconnect of a NUMA node, 5 that between NUMA nodes.
Levels levels_of_gpus(const Text& text, const std::vector<std::vector<int>>& distances);

/// Remembers in which line each name stands; throws UsageError for one that stands twice.
class Once {
public:
    Once(const Text& text, std::string_view what) : text_(text), what_(what) {}
    void add(const std::string& name, int line);

private:
    const Text& text_;
    std::string_view what_;
    std::map<std::string, int, std::less<>> lines_;
};

}  // namespace rankmesh::cluster_files
