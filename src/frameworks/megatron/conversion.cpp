// SPDX-License-Identifier: Apache-2.0
// What convert reads and writes: the flags of Megatron's command line, and the order of its axes.
#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/megatron.hpp>

#include "convert/rows.hpp"
#include "convert/words.hpp"
#include "frameworks/megatron/megatron.hpp"

namespace rankmesh::conversion {

namespace of_megatron {

constexpr auto levels_name = "hierarchical context parallel sizes";
constexpr auto instances_name = "distributed optimizer instances";
constexpr auto mapped_order = "tp-cp-ep-pp-dp";

/// The numbers that the command line has under the names of the function's arguments.
constexpr std::pair<const char*, int megatron::Settings::*> numbers[] = {
    {"tensor_model_parallel_size", &megatron::Settings::tensor_model_parallel_size},
    {"pipeline_model_parallel_size", &megatron::Settings::pipeline_model_parallel_size},
    {"context_parallel_size", &megatron::Settings::context_parallel_size},
    {"expert_model_parallel_size", &megatron::Settings::expert_model_parallel_size},
    {"num_distributed_optimizer_instances", &megatron::Settings::num_distributed_optimizer_instances}};

constexpr auto layout_name = "pipeline_model_parallel_layout";
constexpr auto own_layout = "megatron's pipeline_model_parallel_layout";  // comes back as it was given

/// The stages of a layout such as `Ett|(tt|)*6ttL`, as PipelineParallelLayerLayout reads it.
int stages_in(std::string_view layout) {
    auto stages = 1;
    const auto times = [&](std::size_t at) {  // `*6` behind `at`
        const auto end = layout.find_first_not_of("0123456789", at + 2);
        return at + 1 < layout.size() && layout[at + 1] == '*'
                   ? detail::number_in(layout.substr(at + 2, end - at - 2)).value_or(1)
                   : 1;
    };
    for (std::size_t at = 0; at < layout.size(); ++at) {
        if (layout[at] == '|') stages += times(at);
        if (layout[at] != '(') continue;
        const auto end = std::min(layout.find(')', at), layout.size() - 1);
        const auto inside = static_cast<int>(std::ranges::count(layout.substr(at, end - at), '|'));
        stages += inside * std::min(times(end), Mesh::max_size / std::max(inside, 1) / 2);
        at = end;
    }
    return stages;
}

constexpr auto per_stage = "num_layers_per_virtual_pipeline_stage";

constexpr auto account_for_embedding = "account_for_embedding_in_pipeline_split";
constexpr auto account_for_loss = "account_for_loss_in_pipeline_split";

/// The virtual stages of a rank, where a flag counts the layers of one; Megatron's None for one stage.
std::optional<int> stages_of_layers(Settings& settings, const megatron::Settings& sizes) {
    const auto each = settings.size(per_stage);
    const auto* stages = "num_virtual_stages_per_pipeline_rank";
    if (sizes.virtual_pipeline_model_parallel_size)
        throw UsageError(cat(settings.shown(per_stage), " is another way to say ", settings.shown(stages),
                             "; say it once"));
    if (!settings.has("num_layers")) return std::nullopt;
    auto layers = settings.size("num_layers");
    for (const auto* counted : {account_for_embedding, account_for_loss})
        layers += settings.flag(counted).value_or(false) ? 1 : 0;
    const auto pp = sizes.pipeline_model_parallel_size;
    if (layers % pp != 0 || layers / pp % each != 0)
        throw UsageError(cat(settings.shown(per_stage), " is ", each,
                             ", which must divide the layers of a rank: ", layers, " over ", pp, " stages"));
    const auto found = layers / pp / each;
    return found > 1 ? std::optional(found) : std::nullopt;
}

megatron::Settings sizes_in(Settings& settings) {
    auto sizes = megatron::Settings{};
    for (const auto& [name, size] : numbers) sizes.*size = settings.size(name);
    sizes.expert_tensor_parallel_size = settings.number("expert_tensor_parallel_size");
    if (settings.program() == "megatron" && sizes.expert_model_parallel_size > 1)
        sizes.expert_tensor_parallel_size = sizes.expert_tensor_parallel_size.value_or(1);  // in ms-swift
    sizes.hierarchical_context_parallel_sizes = settings.numbers("hierarchical_context_parallel_sizes");
    // A flag of the command line, and the argument that it becomes.
    for (const auto* name : {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"})
        if (const auto stages = settings.number(name)) sizes.virtual_pipeline_model_parallel_size = stages;
    sizes.order = settings.word("order").value_or(sizes.order);
    if (settings.flag("use_tp_pp_dp_mapping").value_or(false)) sizes.order = mapped_order;
    if (const auto layout = settings.word(layout_name)) {
        const auto stages = stages_in(*layout);
        const auto pp = sizes.pipeline_model_parallel_size;
        if (stages % pp != 0)
            throw UsageError(cat(settings.shown(layout_name), " has ", stages, " stages, which ", pp,
                                 " pipeline ranks do not divide"));
        if (stages > pp) sizes.virtual_pipeline_model_parallel_size = stages / pp;
    }
    if (settings.has(per_stage))
        sizes.virtual_pipeline_model_parallel_size = stages_of_layers(settings, sizes);
    return sizes;
}

/// Where a replica of the optimizer is a run of whole dp ranks, dp is split into replicas and shards.
bool splits_dp(const megatron::Settings& sizes, const Mesh& dense) {
    const auto cp_inside =
        size_of(dense, "cp") == 1 || dense.layout("dp").digit(0).stride > dense.layout("cp").digit(0).stride;
    return cp_inside && size_of(dense, "dp") % sizes.num_distributed_optimizer_instances == 0 &&
           size_of(dense, "dp") > 1;
}

/// Adds virtual stages, with their layers if these are known.
void add_stages(Arrangement& arrangement, Settings& settings, std::optional<int> count) {
    if (count) arrangement.extras.push_back({std::string(virtual_stages), std::to_string(*count)});
    const auto is_less = [&](const char* flag) { return settings.flag(flag).value_or(false) ? 1 : 0; };
    auto stages =
        StageLayers{settings.size(per_stage, 0), is_less(account_for_embedding), is_less(account_for_loss)};
    const auto layers = settings.size("num_layers", 0);
    const auto pp = size_of(arrangement.dense(), "pp");
    const auto has_layers_only = !count && settings.has(per_stage) && layers > 0;
    if (pp == 1 || has_layers_only) return;  // one stage a rank
    const auto all = layers + stages.first_less + stages.last_less;
    if (count && stages.layers == 0 && layers > 0 && all % (std::int64_t{pp} * *count) == 0)
        stages.layers = static_cast<int>(all / (std::int64_t{pp} * *count));
    if (stages.layers > 0) {
        arrangement.stages = stages;
        if (!count) arrangement.extras.push_back(uncounted(stages));
        return;
    }
    if (stages.first_less == 0 && stages.last_less == 0) return;
    arrangement.extras.push_back({std::string(fewer_first), std::to_string(stages.first_less)});
    arrangement.extras.push_back({std::string(fewer_last), std::to_string(stages.last_less)});
}

/// The groups; an error about experts says where a size is from that the settings do not give.
frameworks::Groups groups_of(const megatron::Settings& sizes, const Settings& settings, int world) {
    try {
        return megatron::groups(sizes, world);
    } catch (const frameworks::Error& error) {
        const auto tp = sizes.tensor_model_parallel_size;
        if (sizes.expert_tensor_parallel_size || sizes.expert_model_parallel_size == 1 || tp == 1 ||
            std::string_view(error.what()).find("expert_tensor") == std::string_view::npos)
            throw;
        throw frameworks::Error(error.fault,
                                cat(error.what(), "; ", settings.shown("expert_tensor_parallel_size"),
                                    " is not given, so it is tp, ", tp));
    }
}

Arrangement read(Settings& settings, std::optional<int> world) {
    const auto sizes = sizes_in(settings);
    const auto dp = settings.number("data_parallel_size");
    const auto groups =
        groups_of(sizes, settings, needed_world(settings, world, "megatron's data parallel size"));
    auto arrangement = Arrangement{{groups.mesh()}};
    auto dense = arrangement.dense();
    // Megatron takes this from the world and keeps it among its arguments.
    if (dp && *dp != size_of(dense, "dp"))
        throw UsageError(cat(settings.shown("data_parallel_size"), " is ", *dp, ", but a world of ",
                             dense.size(), " ranks leaves ", size_of(dense, "dp"), " to it"));
    const auto instances = sizes.num_distributed_optimizer_instances;
    if (instances > 1 && splits_dp(sizes, dense))
        dense = dense.split("dp", {{"dp_replicate", instances}, {"dp_shard", rest}});
    else if (instances > 1)
        arrangement.extras.push_back({instances_name, std::to_string(instances)});
    arrangement.meshes[0] = dense;
    const auto& experts = frameworks::Access::meshes(groups).at(1).second;
    if (size_of(experts, "ep") > 1 || size_of(experts, "etp") != size_of(dense, "tp"))
        arrangement.meshes.push_back(experts);
    const auto etp = settings.shown("expert_tensor_parallel_size");
    arrangement.one_etp =
        cat(sizes.expert_tensor_parallel_size ? "give " : "Megatron's default is tp, so give ", etp,
            etp.starts_with('-') ? " 1" : "=1");
    add_stages(arrangement, settings, sizes.virtual_pipeline_model_parallel_size);
    if (const auto& levels = sizes.hierarchical_context_parallel_sizes; levels && !levels->empty())
        arrangement.extras.push_back({levels_name, frameworks::joined(*levels, " ")});
    if (const auto layout = settings.word(layout_name)) arrangement.extras.push_back({own_layout, *layout});
    return arrangement;
}

/// The order, innermost first, that lays the axes out as they are: one that the command line has if it does.
std::string order_of(const Mesh& dense) {
    auto order = by_stride(dense);
    std::ranges::reverse(order);
    for (const auto* known : {"tp-cp-ep-dp-pp", mapped_order}) {
        auto names = frameworks::of_megatron::tokens(known);
        std::erase_if(names, [&](const auto& name) { return size_of(dense, name) == 1; });
        if (names == order) return known;
    }
    for (const auto* missing : {"dp", "cp", "tp"})
        if (std::ranges::find(order, missing) == order.end()) order.insert(order.begin(), missing);
    if (std::ranges::find(order, "pp") == order.end()) order.emplace_back("pp");
    const auto inside = size_of(dense, "dp") > 1 ? "dp" : "pp";
    order.insert(std::ranges::find(order, inside), "ep");  // experts are taken out of dp
    return frameworks::joined(order, "-");
}

/// The sizes of an arrangement in roles.
megatron::Settings megatron_sizes(const Arrangement& arrangement) {
    const auto& dense = arrangement.dense();
    auto sizes = megatron::Settings{};
    sizes.tensor_model_parallel_size = size_of(dense, "tp");
    sizes.pipeline_model_parallel_size = size_of(dense, "pp");
    sizes.context_parallel_size = size_of(dense, "cp");
    if (const auto* experts = arrangement.experts()) {
        sizes.expert_model_parallel_size = size_of(*experts, "ep");
        sizes.expert_tensor_parallel_size = size_of(*experts, "etp");
    }
    if (size_of(dense, "dp_shard") > 1)
        sizes.num_distributed_optimizer_instances = size_of(dense, "dp_replicate");
    if (const auto instances = extra_of(arrangement, instances_name))
        sizes.num_distributed_optimizer_instances = std::stoi(*instances);
    if (size_of(dense, "pp") > 1) sizes.virtual_pipeline_model_parallel_size = stages_of(arrangement);
    if (auto levels = extra_of(arrangement, levels_name)) {
        std::ranges::replace(*levels, ' ', ',');
        sizes.hierarchical_context_parallel_sizes = Json::parse("[" + *levels + "]").get<std::vector<int>>();
    }
    sizes.order = order_of(joined(dense, {"dp", "dp_replicate", "dp_shard"}, "dp"));
    return sizes;
}

/// The arguments of initialize_model_parallel, which takes more orders than the command line.
Document write_call(const Arrangement& arrangement) {
    const auto sizes = megatron_sizes(arrangement);
    auto values = Json::object();
    for (const auto& [name, size] : numbers) values[name] = sizes.*size;
    values["order"] = sizes.order;
    if (const auto etp = sizes.expert_tensor_parallel_size) values["expert_tensor_parallel_size"] = *etp;
    return {values, cat("initialize_model_parallel(order=\"", sizes.order, "\")")};
}

/// True where dp varies slower than pp, and the command line's second order does not refuse the sizes.
bool is_mapped(megatron::Settings sizes, const Mesh& dense) {
    const auto order = by_stride(dense);
    const auto pp = std::ranges::find(order, "pp");
    if (pp == order.end() ||
        std::none_of(order.begin(), pp, [](const auto& name) { return name.starts_with("dp"); }))
        return false;
    sizes.order = mapped_order;
    try {
        megatron::groups(sizes, dense.size());
        return true;
    } catch (const frameworks::Error&) {
        return false;
    }
}

Document write(const Arrangement& arrangement) {
    const auto sizes = megatron_sizes(arrangement);
    auto written = Document{Json::object(), {}};
    const auto say = [&](const char* name, const Json& value, const std::string& shown) {
        written.values[name] = value;
        auto flag = cat("--", name);
        std::ranges::replace(flag, '_', '-');
        written.text += cat(written.text.empty() ? "" : " ", flag, shown.empty() ? "" : " ", shown);
    };
    const auto say_size = [&](const char* name, int size, int otherwise) {
        if (size != otherwise) say(name, size, std::to_string(size));
    };
    say_size("tensor_model_parallel_size", sizes.tensor_model_parallel_size, 0);
    say_size("pipeline_model_parallel_size", sizes.pipeline_model_parallel_size, 0);
    if (const auto layout = extra_of(arrangement, own_layout))
        say(layout_name, *layout, cat("'", *layout, "'"));
    else
        say_size("num_virtual_stages_per_pipeline_rank",
                 sizes.virtual_pipeline_model_parallel_size.value_or(1), 1);
    const auto& stages = arrangement.stages;
    const auto is_counted = sizes.virtual_pipeline_model_parallel_size.has_value();
    const auto less = [&](int StageLayers::*part, std::string_view extra) {
        return stages ? *stages.*part : extra_of(arrangement, extra) == "1" ? 1 : 0;
    };
    const auto first = less(&StageLayers::first_less, fewer_first);
    const auto last = less(&StageLayers::last_less, fewer_last);
    const auto can_say = [](int n) { return n == 0 || n == 1; };
    if (can_say(first) && can_say(last)) {
        if (stages && !is_counted) say_size(per_stage, stages->layers, 0);
        if (first == 1) say(account_for_embedding, true, {});
        if (last == 1) say(account_for_loss, true, {});
    }
    say_size("context_parallel_size", sizes.context_parallel_size, 1);
    if (const auto levels = extra_of(arrangement, levels_name))
        say("hierarchical_context_parallel_sizes", *sizes.hierarchical_context_parallel_sizes, *levels);
    say_size("expert_model_parallel_size", sizes.expert_model_parallel_size, 1);
    const auto tp = sizes.tensor_model_parallel_size;
    say_size("expert_tensor_parallel_size", sizes.expert_tensor_parallel_size.value_or(tp), tp);
    if (sizes.num_distributed_optimizer_instances > 1) say("use_distributed_optimizer", true, {});
    say_size("num_distributed_optimizer_instances", sizes.num_distributed_optimizer_instances, 1);
    // The command line has two orders; the function behind it takes any that it finds no fault with.
    if (is_mapped(sizes, arrangement.dense())) say("use_tp_pp_dp_mapping", true, {});
    return written;
}

Words words(const Arrangement& roles, const Document&) {
    return words_of(megatron::groups(megatron_sizes(roles), roles.dense().size()));
}

}  // namespace of_megatron

Converter megatron() {
    auto made = of_rows(frameworks::framework_named("megatron"));
    made.read = of_megatron::read;
    made.write = of_megatron::write;
    made.words = of_megatron::words;
    made.write_call = of_megatron::write_call;
    made.roles = {"pp", "dp", "cp", "tp"};
    made.notes = {{"dp_shard",
                   "Megatron copies the parameters unless --use-megatron-fsdp is given; "
                   "--use-distributed-optimizer shards only the optimizer state"}};
    made.schedules_by_stages = true;
    // Megatron-Bridge, NeMo, verl's Megatron engine and Megatron's own tests have them in tables.
    made.places = "model trainer.strategy actor_rollout_ref.actor.megatron MODEL_ARGS";
    made.started =  // slime starts by flags
        "trainer.num_nodes trainer.devices | trainer.nnodes trainer.n_gpus_per_node | "
        "actor_num_nodes actor_num_gpus_per_node";
    return made;
}

}  // namespace rankmesh::conversion
