// SPDX-License-Identifier: Apache-2.0
#include "convert/converters.hpp"

#include <algorithm>
#include <utility>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/frameworks/error.hpp>

#include "convert/rows.hpp"
#include "formats/text.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

// Those that rows do not describe, or not wholly: src/frameworks/NAME/conversion.cpp defines its function.
Converter torch(), megatron(), deepspeed(), areal(), tensorrt_llm(), tensorrt_llm_old(), nemo_rl();

/// Our own text of a job.
static Converter rankmesh_text() {
    return {
        .name = "rankmesh",
        .of = "a mesh, outermost axis first; one of experts after ';', of other ranks after '+'",
        .example = "'pp=2 dp=4 tp=2'",
        .read = [](Settings& settings,
                   std::optional<int> world) { return arrangement_of(parse_job(settings.text(), world)); },
        .write =
            [](const Arrangement& arrangement) {
                return Document{Json::object(), to_string(arrangement)};
            },
        .takes_jobs = true,
        .own_names = true};
}

const std::vector<Converter>& converters() {
    static const auto all = [] {
        auto every = std::vector<Converter>{rankmesh_text(), torch(),        megatron(),         deepspeed(),
                                            areal(),         tensorrt_llm(), tensorrt_llm_old(), nemo_rl()};
        for (const auto& rows : frameworks::all())
            if (!rows.settings.empty() &&
                std::ranges::find(every, rows.name, &Converter::name) == every.end())
                every.push_back(of_rows(rows));
        return every;
    }();
    return all;
}

std::string unknown_framework(std::string_view option, std::string_view name,
                              const std::vector<std::string_view>& known) {
    return cat("unknown framework ", detail::in_quotes(name), " for ", option,
               "; one of: ", detail::with_commas(known), did_you_mean(name, known));
}

const Converter& converter_named(std::string_view name, std::string_view option) {
    for (const auto& converter : converters())
        if (converter.name == name) return converter;
    throw UsageError(unknown_framework(option, name, frameworks::known_names(converters())));
}

Arrangement read_all(const Converter& from, Settings settings, std::optional<int> world) {
    try {
        settings.start_on(from.started);
        settings.enter_first_of(from.places);
        auto arrangement = from.read(settings, world);
        settings.finish();
        keep_others(from, settings, arrangement);
        return arrangement;
    } catch (const frameworks::Error& error) {
        settings.finish();  // sizes that do not fit may be for want of one that is misspelt
        throw UsageError(settings.brief(error.what()));
    } catch (const UsageError& error) {
        auto said = settings.brief(error.what());
        for (const auto& other : converters())  // whose counts of hosts and devices the file has
            if (const auto counts = other.started.substr(0, other.started.find('|'));
                other.name != from.name && settings.has_all(counts))
                said += cat("; a file of ", other.name, " is read with ",
                            detail::in_python("from_=", "--from "), other.name);
        throw UsageError(said);
    }
}

namespace {

/// The same without a schedule that `to` runs unasked, as `back` was written, or that is of one stage, and
/// without the number of virtual stages if `back` has their layers, or zero fewer layers, which is plain.
Arrangement without_unasked(Arrangement arrangement, const Converter& to, const Arrangement& back) {
    const auto own = extra_of(back, virtual_stages) ? interleaved : "1F1B";
    const auto is_single = size_of(arrangement.dense(), "pp") == 1;
    std::erase_if(arrangement.extras, [&](const auto& extra) {
        if (extra.name == virtual_stages && arrangement.stages && arrangement.stages == back.stages)
            return true;
        if ((extra.name == fewer_first || extra.name == fewer_last) && extra.value == "0") return true;
        return extra.name == pipeline_schedule &&
               (is_single || (to.schedules_by_stages && extra.value == own));
    });
    return arrangement;
}

/// The text of a name in texts by names, such as `ep, etp`; "" if there is none.
std::string_view text_of(std::string_view name, const std::map<std::string_view, std::string_view>& texts) {
    for (const auto& [names, text] : texts)
        if (cat(", ", names, ",").find(cat(", ", name, ",")) != std::string::npos) return text;
    return {};
}

/// True if `to` writes these axes with replicas for dp, shards of one rank and nothing else lost.
bool can_copy(const Converter& to, Arrangement asked, std::size_t lost) {
    asked.meshes.front() = joined(asked.dense(), {"dp"}, "dp_replicate");
    const auto copies = express(to, asked);
    return copies.back && size_of(copies.back->dense(), "dp_shard") == 1 &&
           copies.comparison.lost.size() == lost;
}

/// Says that the target has made `shards` of a plain dp, and how to copy the parameters; "" if it has not.
std::string note_on_shards(const Converter& to, const Arrangement& asked, const Expressed& expressed,
                           int shards) {
    const auto dp = size_of(asked.dense(), "dp");
    if (shards == 1 || dp == 1 || dp != data_size(asked.dense())) return {};
    auto remedy = std::string{};
    if (size_of(asked.dense(), "cp") == 1) {  // with cp, parameters stay sharded
        if (!to.copies_by.empty())
            remedy = asked.experts() ? "" : cat("; to copy them, ", to.copies_by);
        else if (expressed.back->dense().find("dp_replicate") &&
                 (!asked.experts() || can_copy(to, asked, expressed.comparison.lost.size())))
            remedy = cat("; to copy them, set its replicas to ", dp, " and its shards to 1");
    }
    return cat("dp=", dp, ": ", to.name, " shards the parameters over ",
               shards < dp ? cat("groups of ", shards, " of these ranks") : "these ranks", remedy);
}

/// One of several servers, as a job of its own; settings that are flags once for each of the first servers.
Expressed express_server(const Converter& to, Arrangement asked, bool call) {
    constexpr auto most = 16;
    const auto servers = size_of(asked.dense(), "servers");
    for (auto& mesh : asked.meshes) mesh = one_server(mesh);
    auto one = express(to, asked, call);
    if (servers == 1) return one;
    one.comparison.lost.insert(one.comparison.lost.begin(),
                               {cat("servers=", servers), "each server is a job of its own"});
    if (!one.document || !to.serves || !one.document->text.starts_with("--")) return one;
    auto& text = one.document->text;
    const auto flags = std::exchange(text, {});
    for (int i = 0; i < std::min(servers, most); ++i)
        text += cat(i == 0 ? "" : "\n", flags, "  # server ", i, " of ", servers);
    if (servers > most) text += cat("\n# ... the same for ", servers - most, " more");
    return one;
}

}  // namespace

Arrangement taken_by(const Converter& to, Arrangement arrangement) {
    if (arrangement.job.parts.empty() || to.takes_jobs) return arrangement;
    const auto job = std::exchange(arrangement.job, {});
    auto layouts = layouts_of(job, to.serves);
    if (layouts.size() == 1) return to.serves ? Arrangement{layouts[0]} : arrangement;
    if (layouts.empty()) layouts = layouts_of(job, !to.serves);
    auto listed = std::vector<std::string>{};
    for (const auto& layout : layouts) listed.push_back(detail::in_quotes(to_string(layout)));
    throw UsageError(cat("the job ", to_string(job), " has ", layouts.size(), " layouts for ", to.name, ": ",
                         detail::with_commas(listed), "; give one of them alone"));
}

/// One layout of a job of several; the others are noted, or lost.
static Expressed express_one_of(const Converter& to, const Arrangement& arrangement, bool call) {
    auto one = express(to, taken_by(to, arrangement), call);
    for (const auto& other : layouts_of(arrangement.job, !to.serves))
        if (to.serves)
            one.notes.push_back(cat("this is the layout of the rollouts; training has ", to_string(other)));
        else if (arrangement.extras.empty())  // else these settings are lost, or written again
            one.comparison.lost.push_back({to_string(other),
                                           "this is the layout of the rollouts; convert it "
                                           "to the framework that serves them"});
    return one;
}

Expressed express(const Converter& to, const Arrangement& arrangement, bool call) {
    if (!arrangement.job.parts.empty() && !to.takes_jobs) return express_one_of(to, arrangement, call);
    auto asked = in_roles(arrangement);
    if (to.takes_jobs) std::erase_if(asked.extras, [](const Extra& extra) { return extra.in_job; });
    if (asked.dense().find("servers") && !to.roles.empty()) return express_server(to, asked, call);
    auto expressed = Expressed{};
    const auto why = [&](std::string_view what) {
        const auto found = text_of(what, to.why);
        if (what == "etp" && found.ends_with("give etp=1"))
            return std::string(found.substr(0, found.rfind("give"))) + asked.one_etp;
        return found.empty() ? cat(to.name, " has no setting for it") : std::string(found);
    };
    auto& lost = expressed.comparison.lost;
    for (const auto& name : by_stride(asked.dense()))
        if (const auto role = name.starts_with("dp_") ? "dp" : std::string_view(name);
            !to.roles.empty() && std::ranges::find(to.roles, role) == to.roles.end()) {
            lost.push_back(
                {cat(name, "=", asked.dense().size(name)),
                 text_of(name, to.why).empty()
                     ? cat(to.name, " has no such axis; it has ", detail::with_commas(to.roles),
                           are_of_two_axes(name, nearest(name, to.roles)) ? "" : did_you_mean(name, to.roles))
                     : why(name)});
        }
    if (!lost.empty()) {
        expressed.comparison.fits = false;
        return expressed;
    }
    auto shards = 1;
    auto dp_role = std::string_view("dp");
    try {
        const auto write = call && to.write_call ? to.write_call : to.write;
        auto document = write(to.own_names ? arrangement : asked);
        write_others(to, asked, document);
        auto back = read_all(to, Settings(to.name, document.values, document.text), asked.dense().size());
        shards = size_of(in_roles(back).dense(), "dp_shard");
        dp_role = std::exchange(back.dp_role, "dp");  // shown under its own name
        expressed.back = in_roles(back);
        if (!to.takes_jobs) expressed.back->job = {};
        expressed.document = std::move(document);
    } catch (const UsageError& error) {
        // The framework refuses these sizes, in its own words.
        lost.push_back({to_string(asked), error.what()});
        expressed.comparison.fits = false;
        return expressed;
    }
    for (const auto& name : by_stride(asked.dense()))
        if (const auto note = text_of(name, to.notes); !note.empty())
            expressed.notes.push_back(cat(name, "=", asked.dense().size(name), ": ", note));
    const auto is_noted = [&](std::string_view name) {
        return to.own_names || name == dp_role || !text_of(name, to.notes).empty() ||
               (name == "dp_replicate" && !to.serves);
    };
    expressed.comparison =
        compare(without_unasked(asked, to, *expressed.back), *expressed.back, why, is_noted);
    if (!asked.has_experts)
        std::erase_if(expressed.comparison.lost, [&](const auto& loss) {
            const auto is_of_experts = loss.what.starts_with("etp=") || loss.what.starts_with("edp=");
            if (is_of_experts)
                expressed.notes.push_back(cat("if the model has experts, they have ", loss.what,
                                              ", which these settings do not say"));
            return is_of_experts;
        });
    if (auto note = note_on_shards(to, asked, expressed, shards); !note.empty())
        expressed.notes.push_back(std::move(note));
    if (to.write_call && !call && expressed.comparison.moved > 0)
        if (const auto other = express(to, arrangement, true);
            other.document && other.comparison.moved < expressed.comparison.moved)
            expressed.call = {other.document->text, other.comparison.moved};
    return expressed;
}

std::optional<int> world_of(Settings& settings, std::optional<int> world) {
    const auto said = settings.number("world_size");
    if (said && *said < 1)
        throw UsageError(cat(settings.shown("world_size"), " is ", *said, "; it must be 1 or more"));
    if (said && world && *said != *world)
        throw UsageError(cat(detail::in_python("world", "--world"), " says ", *world, " ranks, ",
                             settings.shown("world_size"), " ", *said, "; say it once"));
    if (!said && !world) return settings.launched();
    return said ? said : world;
}

int needed_world(Settings& settings, std::optional<int> world, std::string_view what) {
    auto known = world_of(settings, world);
    if (!known)
        if (const auto announced = announced_size()) known = announced->value;
    if (!known)
        throw UsageError(cat(what, " follows from the number of ranks, which is not given; add ",
                             detail::in_python("world=N", "--world N")));
    return *known;
}

std::string schedule_named(const std::string& word) {
    for (const auto* known :
         {"1F1B", "GPipe", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble",
          "DualPipeV", "Custom1F1B", "CustomInterleaved1F1B", "Custom1F1BV"})
        if (formats::lower(word) == formats::lower(known)) return known;
    return word;
}

std::optional<int> stages_of(const Arrangement& arrangement) {
    const auto said = extra_of(arrangement, virtual_stages);
    return said ? detail::number_in(*said) : std::nullopt;
}

Extra uncounted(const StageLayers& stages) {
    return {std::string(virtual_stages), cat("of ", detail::counted(stages.layers, "layer"))};
}

std::optional<std::string> extra_of(const Arrangement& arrangement, std::string_view name) {
    const auto found = std::ranges::find(arrangement.extras, name, &Extra::name);
    return found == arrangement.extras.end() ? std::nullopt : std::optional(found->value);
}

}  // namespace rankmesh::conversion
