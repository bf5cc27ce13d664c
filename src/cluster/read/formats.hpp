// SPDX-License-Identifier: Apache-2.0
// The readers of each kind of file, and their common code.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>

#include "formats/json.hpp"
#include "formats/text.hpp"

namespace rankmesh::cluster_files {

using detail::cat;
using detail::in_quotes;
using formats::Json;

using Levels = std::vector<Cluster::Level>;

struct Node;

/// A text and its source.
struct Text {
    std::string_view content;
    std::string source;
    std::string* note = nullptr;  ///< gets what was left out, if not null

    /// Adds a sentence to the note, once.
    void say(std::string_view sentence) const;
    /// Removes nodes and says so with the reason. Throws UsageError if no node is left.
    void leave_out(std::vector<Node>& nodes, std::string_view why,
                   const std::function<bool(const Node&)>& is_out) const;

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
    std::vector<std::string_view> words() const { return formats::words_of(text); }
};

/// Returns the lines of a text. With `continued`, a backslash at the end of a line joins the next line to it,
/// as Slurm does: without a blank between them.
std::vector<Line> lines_of(std::string_view text, bool continued = false);

/// Reads a whole number of at least `least`. Throws UsageError, which names it by `of`.
int number_of(const Text& text, int line, std::string_view digits, std::string_view of, int least);

/// Reads JSON of any size that a text may have. Throws UsageError for a syntax error.
Json json_of(const Text& text);
/// Returns the value at keys inside one another; null if one is missing.
const Json& value_at(const Json& json, std::initializer_list<std::string_view> keys);
/// Returns the elements of an array; no elements for another value.
std::span<const Json> elements_of(const Json& json);
/// Returns a text, or a number as text; empty for another value.
std::string text_of(const Json& json);

/// A node, its devices (0: unknown), and the units around it, outermost first.
struct Node {
    std::string name;
    int count = 0;
    std::vector<std::string> around = {};
};

/// Nodes by their names, in the order of their first mention.
class Nodes {
public:
    explicit Nodes(const Text& text) : text_(text) {}
    /// Adds devices to a node, which may be new.
    Node& add(std::string_view name, int count, int line);
    bool contains(std::string_view name) const { return places_.contains(name); }
    std::vector<Node> list = {};

private:
    const Text& text_;
    std::map<std::string, std::size_t, std::less<>> places_;
};

/// Returns the levels of nodes, `around` names the levels of the units around them. Nodes of one unit follow
/// one another. Levels that divide nothing are left out, and nodes without devices where others have some.
/// Throws UsageError if a unit is inside two others.
Levels levels_of_nodes(const Text& text, std::vector<Node> nodes,
                       const std::vector<std::string>& around = {});

/// Readers return levels, outermost first. If the units of the innermost level have count 0, they are nodes
/// whose content the file does not describe.
Levels read_toml(const Text& text);
Levels read_slurm(const Text& text);
Levels read_slurm_yaml(const Text& text);
Levels read_slurm_nodes(const Text& text);
Levels read_slurm_variables(const Text& text);
Levels read_lsf_variables(const Text& text);
Levels read_flux(const Text& text);
Levels read_kubernetes(const Text& text);
Levels read_hostfile(const Text& text);
Levels read_rankfile(const Text& text);
Levels read_nvidia_smi(const Text& text);
Levels read_amd_smi(const Text& text);
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

/// Returns the levels of GPUs from the connection between each two: 0 NVLink (or `nearest`), 1 a PCIe switch,
/// 2 several PCIe switches, 3 a host bridge, 4 the interconnect inside a NUMA node, 5 the one between NUMA
/// nodes.
Levels levels_of_gpus(const Text& text, const std::vector<std::vector<int>>& distances,
                      std::string_view nearest = "nvlink");

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
