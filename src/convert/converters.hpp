// SPDX-License-Identifier: Apache-2.0
// How the settings of each framework are read and written.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/convert/convert.hpp>

#include "convert/arrangement.hpp"
#include "convert/settings.hpp"

namespace rankmesh::conversion {

struct Words;

/// How ranks move from one arrangement to another: the process at a coordinate of the first is at the same
/// coordinate of the second.
struct Comparison {
    static constexpr std::size_t shown = 8;

    int moved = 0;                           ///< the number of ranks that change
    std::vector<std::pair<int, int>> first;  ///< the first few of them
    std::vector<Loss> lost;                  ///< groups and settings that only the first has
    bool fits = true;                        ///< false: the dense axes are others, nothing can be compared
};

/// The most ranks whose moves are computed one by one.
constexpr auto most_compared = 1 << 24;

/// Compares arrangements in roles. `why(axis)` says why the second has no groups along an axis. A lost
/// dp_replicate or dp_shard is left out if `is_noted(name)`: the second does the same, or a note says so.
///
/// Law: what is not lost has the same groups in both, once every rank has moved.
Comparison compare(
    const Arrangement& from, const Arrangement& to, const std::function<std::string(std::string_view)>& why,
    const std::function<bool(std::string_view)>& is_noted = [](auto) { return false; });

/// Settings as a framework writes them.
struct Document {
    Json values;       ///< what the framework's own `read` takes
    std::string text;  ///< the same in the framework's syntax, to be pasted
};

/// How the settings of one framework become an arrangement, and an arrangement its settings.
struct Converter {
    std::string_view name;     ///< of the framework
    std::string_view of;       ///< whose settings these are, for the help
    std::string_view example;  ///< settings that it reads
    /// Reads settings; `world` is what the caller says of the number of ranks, if anything.
    std::function<Arrangement(Settings& settings, std::optional<int> world)> read;
    /// Writes the dense axes of an arrangement in roles, and of the rest what the framework has settings for;
    /// throws UsageError in its own words where sizes do not fit it.
    std::function<Document(const Arrangement& arrangement)> write;
    /// The mesh in the framework's words, of what is asked for, in roles, and what was written of it; null
    /// where nothing is known but its settings.
    std::function<Words(const Arrangement& roles, const Document& document)> words = {};
    /// The dense axes that it knows; empty: any.
    std::vector<std::string_view> roles = {};
    /// The reason why other axes and settings cannot be written, by their names, such as `ep, etp`; else it
    /// "has no setting for it".
    std::map<std::string_view, std::string_view> why = {};
    /// What a program must do itself for axes that can be written, by their names.
    std::map<std::string_view, std::string_view> notes = {};
    /// How to copy parameters that it shards over a plain dp, if not by replicas: `set dp_config's name to
    /// "ddp"`.
    std::string_view copies_by = {};
    /// Writes what the framework's function is called with, where that can say more than its settings.
    std::function<Document(const Arrangement& arrangement)> write_call = {};
    /// It runs 1F1B, interleaved if a rank has several virtual stages.
    bool schedules_by_stages = false;
    std::string_view version = {};  ///< of the original that was compared
    std::string_view places =
        {};  ///< tables of a configuration, by spaces: the settings are in the first there is
    std::string_view started = {};  ///< settings outside them, by spaces, whose product is the number of
                                    ///< ranks; `|` between other ones
    bool serves = false;            ///< it serves models, and does not train them
    bool takes_jobs = false;        ///< it says all layouts of a job
    bool own_names = false;         ///< axes keep the names that they have, whatever they are for
};

/// All of them, in the order in which the help lists them.
const std::vector<Converter>& converters();

/// The error for a name that is none of those that `option` takes.
std::string unknown_framework(std::string_view option, std::string_view name,
                              const std::vector<std::string_view>& known);
/// That of a framework; throws UsageError that names the nearest.
const Converter& converter_named(std::string_view name, std::string_view option);

/// An arrangement as a framework can express it.
struct Expressed {
    std::optional<Document> document;      ///< nothing where the dense axes do not fit
    std::optional<Arrangement> back;       ///< what the document says, in roles
    Comparison comparison;                 ///< of what was asked with that
    std::vector<std::string> notes;        ///< on axes that were written
    std::optional<Conversion::Call> call;  ///< where fewer ranks move with it than with the settings
};
/// What a framework takes of a job: its only layout that serves, or its only one that trains. Throws
/// UsageError if there are several.
Arrangement taken_by(const Converter& to, Arrangement arrangement);
/// With `call` what its function can say, without what its settings can.
Expressed express(const Converter& to, const Arrangement& arrangement, bool call = false);
/// The arrangement of settings, all of which the framework knows.
Arrangement read_all(const Converter& from, Settings settings, std::optional<int> world);

/// Keeps what no row reads: as an extra, or in a note.
void keep_others(const Converter& from, Settings& settings, Arrangement& arrangement);
/// Writes the extras that are flags of the framework itself.
void write_others(const Converter& to, const Arrangement& arrangement, Document& document);

// --- what several of them need

/// The number of ranks: `world_size` of the settings, else the caller's; throws UsageError if they
/// differ.
std::optional<int> world_of(Settings& settings, std::optional<int> world);
/// The same where the settings leave a size to the world: else the launcher's; throws UsageError if nobody
/// says it.
int needed_world(Settings& settings, std::optional<int> world, std::string_view what);
/// The value of an extra, nothing where it is not said.
std::optional<std::string> extra_of(const Arrangement& arrangement, std::string_view name);
inline constexpr std::string_view virtual_stages = "virtual pipeline stages";
/// The schedule of several virtual stages, as torch calls it.
inline constexpr auto interleaved = "Interleaved1F1B";
/// The virtual stages of a rank; nothing where they are not said, or only by their layers.
std::optional<int> stages_of(const Arrangement& arrangement);
/// Virtual stages that are said by their layers only: `virtual pipeline stages`, `of 2 layers`.
Extra uncounted(const StageLayers& stages);
/// How many layers fewer the first and the last stage have, where the layers of a stage are not known.
inline constexpr std::string_view fewer_first = "fewer layers of the first stage";
inline constexpr std::string_view fewer_last = "fewer layers of the last stage";
inline constexpr std::string_view pipeline_schedule = "pipeline schedule";
/// A schedule of torch's in torch's own spelling, which knows no case; another word is itself.
std::string schedule_named(const std::string& word);

}  // namespace rankmesh::conversion
