// SPDX-License-Identifier: Apache-2.0
#include "cluster/read/read.hpp"

#include "cluster/read/formats.hpp"
#include "formats/file.hpp"

namespace rankmesh::cluster_files {

namespace {

bool has_line(std::string_view text, auto&& is) {
    return std::ranges::any_of(lines_of(text),
                               [&](const Line& line) { return is(std::string_view(line.text)); });
}

using Words = std::vector<std::string_view>;

bool is_begun(std::string_view text, const Words& by) {
    return has_line(text, [&](auto line) {
        return std::ranges::any_of(by, [&](auto word) { return line.starts_with(word); });
    });
}

bool has_words(std::string_view text, const Words& words) {
    return has_line(text, [&](auto line) {
        return std::ranges::any_of(words,
                                   [&](auto word) { return line.find(word) != std::string_view::npos; });
    });
}

/// Returns true if a line begins with one of these settings of Slurm, `Name=`.
bool has_setting(std::string_view text, const Words& names) {
    return has_line(text, [&](auto line) {
        const auto equals = line.find('=');
        return equals != std::string_view::npos &&
               std::ranges::find(names, formats::lower(line.substr(0, equals))) != names.end();
    });
}

/// Returns true for what Slurm says of its nodes: settings, or a table.
bool has_nodes(std::string_view text, const Words& names) {
    return has_setting(text, names) || has_line(text, [](auto line) {
               return (line.find("NODELIST") != std::string_view::npos || line.find("HOSTNAMES") == 0) &&
                      line.find('=') == std::string_view::npos;
           });
}

bool is_json_with(std::string_view text, const Words& keys) {
    const auto first = formats::trimmed(text).substr(0, 1);
    return (first == "{" || first == "[") && text.find(keys.front()) != std::string_view::npos;
}

/// Returns true if an XML text begins with this element, after declarations and comments.
bool is_xml_of(std::string_view text, const Words& elements) {
    const auto element = elements.front();
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || text[first] != '<') return false;
    for (auto at = first; at != std::string_view::npos; at = text.find('<', at + 1))
        if (text.substr(at + 1, 1) != "?" && text.substr(at + 1, 1) != "!")
            return text.substr(at + 1).starts_with(element);
    return element == "topology";  // no element yet: let a reader report the error
}

/// Returns true for the cluster notation, not a hostfile: several levels on a line, brackets, or a single
/// level. A list of names such as `a[01-31]` or `a[01-31] slots=8` belongs to a hostfile.
bool is_notation(std::string_view text, const Words&) {
    const auto lines = lines_of(text);
    if (lines.size() == 1 && lines.front().words().size() == 1 &&
        lines.front().text.find(':') != std::string::npos)
        return true;
    return std::ranges::any_of(lines, [](const Line& line) {
        const auto words = line.words();
        const auto is_host = words.size() == 1 || words[1].find('=') != std::string_view::npos;
        return line.text.find('(') != std::string::npos ||
               (line.text.find('[') != std::string::npos &&
                (!is_host || words[0].find(':') != std::string_view::npos)) ||
               (!is_host && words[1].find(':') != std::string_view::npos);
    });
}

/// What people have instead of a file that describes a cluster.
struct Other {
    std::string_view words;  ///< of a line of it
    std::string_view what, instead;
};
constexpr Other others[] = {
    {" ROLES ", "a table of kubectl get nodes", "kubectl get nodes -o json"},
    {"apiVersion: ", "YAML of kubectl", "kubectl get nodes -o json"},
    {"Roles:  ", "text of kubectl describe", "kubectl get nodes -o json"},
    {"JOBID PARTITION", "a table of squeue", "scontrol show hostnames in the job"},
    {"JobId=", "text of scontrol show job", "scontrol show hostnames in the job"},
    {"\"sinfo\"", "JSON of sinfo", "sinfo -o '%P %N %G %t'"},
    {"HOST_NAME ", "a table of bhosts", "env in the job"},
    {"Job id ", "a table of qstat", "cat $PBS_NODEFILE in the job"},
    {"Mom = ", "text of pbsnodes", "cat $PBS_NODEFILE in the job"},
    {"exec_host = ", "text of qstat -f", "cat $PBS_NODEFILE in the job"},
    {" UNDEFINED", "a hostfile of Grid Engine", "awk '{print $1 \":\" $2}' $PE_HOSTFILE"},
    {"CPU op-mode(s):", "text of lscpu", "lstopo --of xml"},
    {"Machine (", "text of lstopo", "lstopo --of xml"},
    {"node distances:", "text of numactl --hardware", "lstopo --of xml"},
    {"| NVIDIA-SMI ", "a table of nvidia-smi", "nvidia-smi topo -m"},
    {"(UUID: GPU-", "a list of nvidia-smi -L", "nvidia-smi topo -m"},
    {"= Status Ok", "a table of nvidia-smi topo -p2p", "nvidia-smi topo -m"},
    {" Concise Info ", "a table of rocm-smi", "rocm-smi --showtopo"}};

struct Reader {
    Format format;
    bool (*is)(std::string_view text, const Words& words);
    Words words;
    Levels (*read)(const Text& text);
};

/// In the order in which they are tried.
const auto readers = std::vector<Reader>{
    {{"hwloc", "XML that lstopo of hwloc writes: one machine"}, is_xml_of, {"topology"}, read_hwloc},
    {{"nccl", "XML of NCCL_TOPO_DUMP_FILE or NCCL_TOPO_FILE"}, is_xml_of, {""}, read_nccl},
    {{"toml", "TOML: a table [[level]] for each level, outermost first"},
     is_begun,
     {"[[level]]", "level ="},
     read_toml},
    {{"slurm", "Slurm's topology.conf, or what scontrol show topology prints"},
     has_setting,
     {"switchname", "blockname", "blocksizes", "ringname"},
     read_slurm},
    {{"slurm-yaml", "Slurm's topology.yaml"}, is_begun, {"- topology:"}, read_slurm_yaml},
    {{"slurm-nodes", "Slurm's slurm.conf, or what scontrol show node or sinfo prints"},
     has_nodes,
     {"nodename"},
     read_slurm_nodes},
    {{"slurm-env", "the SLURM_* variables of a job, as env prints them"},
     is_begun,
     {"SLURM_", "export SLURM_"},
     read_slurm_variables},
    {{"lsf-env", "the LSB_* variables of a job of LSF, as env prints them"},
     is_begun,
     {"LSB_", "export LSB_"},
     read_lsf_variables},
    {{"flux", "the resource set R of a Flux job"}, is_json_with, {"\"R_lite\""}, read_flux},
    {{"kubernetes", "the output of kubectl get nodes -o json"},
     is_json_with,
     {"\"metadata\""},
     read_kubernetes},
    {{"amd-smi", "the output of amd-smi topology or rocm-smi --showtopo"},
     has_words,
     {"Link Type between", "LINK TYPE TABLE:", "\"link_type\""},
     read_amd_smi},
    {{"nvidia-smi", "the output of nvidia-smi topo -m"}, has_words, {"GPU0"}, read_nvidia_smi},
    {{"rankfile", "a rankfile of Open MPI"}, is_begun, {"rank "}, read_rankfile},
    {{"notation", "the notation of a cluster, on one line or several"}, is_notation, {}, nullptr},
    {{"hostfile", "a hostfile of Open MPI (a1 slots=8) or MPICH (a1:8)"}, is_begun, {""}, read_hostfile}};

/// Adds the content of nodes, and makes a cluster from levels.
Cluster cluster_of(const Text& text, Levels levels, std::string_view inside) {
    auto& last = levels.back();
    const auto open = !last.units.empty() && last.units.front().count == 0;
    if (last.units.empty() && !inside.empty())
        text.fail(0, cat("already gives the devices; remove ", in_quotes(inside)));
    if (!open && !inside.empty())
        text.fail(0, cat("says how many devices a ", last.name, " has; leave out ", in_quotes(inside)));
    if (open && inside.empty())
        text.fail(0, cat("does not say how many devices a ", last.name, " has; add it, as in '@FILE gpu:8'"));
    if (open) {
        const auto added = Cluster::parse(inside);
        const auto more = added.levels();
        for (auto& unit : last.units) unit.count = added.unit_count(0);
        levels.insert(levels.end(), more.begin(), more.end());
    } else if (!last.units.empty()) {
        levels.push_back({.name = "device"});
    }
    try {
        return Cluster(std::move(levels));
    } catch (const UsageError& error) {
        text.fail(0, error.what());
    }
}

}  // namespace

std::vector<Format> formats() {
    auto all = std::vector<Format>{};
    for (const auto& reader : readers) all.push_back(reader.format);
    return all;
}

Cluster read(const std::string& content, const std::string& source, std::string_view format,
             std::string_view inside, std::string* note) {
    const auto text = Text{content, source, note};
    if (content.size() > most_bytes)
        text.fail(0, cat("has more than ", most_bytes, " bytes, the limit for a cluster"));
    if (lines_of(content).empty()) text.fail(0, "is empty, or has only comments");
    for (const auto& [words, what, instead] : others)
        if (format.empty() && has_words(content, {words}))
            text.fail(
                0, cat("is ", what, ", which does not describe the machines; give the output of ", instead));
    auto names = std::vector<std::string_view>{};
    for (const auto& reader : readers) {
        names.push_back(reader.format.name);
        if (format.empty() ? !reader.is(content, reader.words) : format != reader.format.name) continue;
        if (reader.read != nullptr) return cluster_of(text, reader.read(text), inside);
        if (!inside.empty()) text.fail(0, cat("already gives the devices; remove ", in_quotes(inside)));
        auto levels = std::string{};
        for (const auto& line : lines_of(content)) levels += line.text + "\n";
        try {
            return Cluster::parse(levels);
        } catch (const UsageError& error) {
            text.fail(0, error.what());
        }
    }
    throw UsageError(cat("unknown format ", in_quotes(format), "; formats are ",
                         detail::listed({names.begin(), names.end()}), did_you_mean(format, names)));
}

Cluster read_file(const std::string& path, std::string_view format, std::string_view inside,
                  std::string* note) {
    const auto source = path == "-" ? std::string("standard input") : detail::excerpt(path, 400);
    return read(formats::content_of(path, cat("the file ", in_quotes(source)), most_bytes), source, format,
                inside, note);
}

bool is_file(const std::string& text) {
    if (text.starts_with('@') || text == "-") return true;
    return formats::is_file_name(text, ":[( \t\n", {".toml", ".xml", ".conf", ".txt"});
}

Cluster read_argument(const std::string& text, std::string_view format, std::string* note) {
    if (text.empty()) return Cluster::parse(text);
    if (!is_file(text)) {
        if (!format.empty() && format != "notation")
            throw UsageError(cat("--from ", format, " requires a file, but ", in_quotes(text),
                                 " is not a file; give @FILE"));
        if (text.find_first_of("[:(") == std::string::npos)
            throw UsageError(cat("there is no file ", in_quotes(text),
                                 ", and it is not a cluster such as 'node:32 gpu:8'"));
        if (text.find_first_of(":( ") == std::string::npos)
            throw UsageError(cat(in_quotes(text), " does not say how many devices a node has; add it, as in ",
                                 "'node[", detail::excerpt(text), "]:8'"));
        return Cluster::parse(text);
    }
    if (!text.starts_with('@')) return read_file(text, format, {}, note);
    const auto blank = std::min(text.find(' '), text.size());
    if (blank == 1)
        throw UsageError(
            cat("the cluster ", in_quotes(text), " has '@' without a file name; write '@FILE LEVELS'"));
    const auto inside = std::string_view(text).substr(blank);
    const auto begin = inside.find_first_not_of(' ');
    return read_file(text.substr(1, blank - 1), format,
                     begin == std::string_view::npos ? "" : inside.substr(begin), note);
}

}  // namespace rankmesh::cluster_files
