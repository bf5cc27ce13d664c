// SPDX-License-Identifier: Apache-2.0
// What convert reads and writes beside rows: sizes of any axes in their order, and the sections of a
// configuration.
#include "convert/rows.hpp"
#include "convert/topology_settings.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

namespace of_deepspeed {

/// MiCS shards over consecutive ranks and copies the rest; hpZ keeps a second copy of the shards inside a
/// host.
void add_shards(Arrangement& arrangement, Settings& zero) {
    const auto data = size_of(arrangement.dense(), "dp");
    const auto tp = size_of(arrangement.dense(), "tp");
    if (const auto shards = zero.size("mics_shard_size", -1, -1); shards > 0) {
        if (data % shards != 0)
            throw UsageError(cat("mics_shard_size is ", shards,
                                 "; it must divide the data parallel size, which is ", data));
        arrangement.meshes[0] =
            plain_mesh({{"dp_replicate", data / shards}, {"dp_shard", shards}, {"tp", tp}});
    }
    if (const auto inside = zero.size("zero_hpz_partition_size"); inside > 1)
        arrangement.extras.push_back({"deepspeed's zero_hpz_partition_size", std::to_string(inside)});
}

/// The sizes of GPT-NeoX's configuration; the rest of the world is data parallel.
Arrangement read_neox(Settings& settings, std::optional<int> world) {
    const auto pp = std::max(settings.size("pipe_parallel_size", 1, 0), 1);
    const auto mp = settings.size("model_parallel_size");
    const auto ranks = needed_world(settings, world, "GPT-NeoX's data parallel size");
    if (const auto each = std::int64_t{pp} * mp; ranks % each != 0)
        throw UsageError(cat("pipe_parallel_size x model_parallel_size is ", each,
                             "; it must divide the world's size, which is ", ranks));
    return {{plain_mesh({{"pp", pp}, {"dp", ranks / pp / mp}, {"tp", mp}})}};
}

/// The sections of AutoTP and AutoEP in a configuration: experts take consecutive ranks, whatever the
/// tensors' are.
Arrangement read_configuration(Settings& settings, std::optional<int> world) {
    const auto ranks = needed_world(settings, world, "DeepSpeed's data parallel size");
    auto tp = 1;
    auto ep = 1;
    if (auto tensor = settings.table("tensor_parallel"))
        tp = std::max(tensor->size("autotp_size", 1, 0), 1);  // 0: no tensor parallelism
    auto experts = settings.table("expert_parallel");
    const auto is_enabled = experts && experts->flag("enabled").value_or(false);
    if (is_enabled) {
        ep = experts->size("autoep_size");
        if (const auto etp = experts->size("expert_tensor_parallel_size"); etp != 1)
            throw UsageError(cat("expert_tensor_parallel_size is ", etp,
                                 ", which DeepSpeed does not support; it must be 1"));
    }
    if (ranks % tp != 0 || ranks % ep != 0)
        throw UsageError(cat("autotp_size is ", tp, " and autoep_size ", ep,
                             "; both must divide the world's size, which is ", ranks));
    auto arrangement = Arrangement{{plain_mesh({{"dp", ranks / tp}, {"tp", tp}})}};
    if (auto zero = settings.table("zero_optimization")) add_shards(arrangement, *zero);
    if (ep > 1) arrangement.meshes.push_back(plain_mesh({{"edp", ranks / ep}, {"ep", ep}, {"etp", 1}}));
    if (experts && !is_enabled && experts->values().size() > (experts->has("enabled") ? 1U : 0U))
        arrangement.notes.emplace_back("expert_parallel is ignored: enabled is not true");
    return arrangement;
}

Arrangement read(Settings& settings, std::optional<int> world) {
    if (settings.has("pipe_parallel_size") || settings.has("model_parallel_size"))
        return read_neox(settings, world);
    const auto has = [&, &all = settings.values()](std::string_view name) {
        return settings.has_table("zero_optimization") && all["zero_optimization"].contains(name);
    };
    const auto is_sharded = has("mics_shard_size") || has("zero_hpz_partition_size");
    if (settings.values().contains("tensor_parallel") || settings.values().contains("expert_parallel") ||
        is_sharded)
        return read_configuration(settings, world);
    for (const auto* name : {"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization"})
        if (settings.values().contains(name))
            throw UsageError(cat("the configuration has ", name,
                                 ", but neither tensor_parallel nor expert_parallel, so it gives no layout; "
                                 "if all ranks are data parallel, write data=N"));
    // The arguments of PipeModelDataParallelTopology.
    const auto sizes = SizesOfAxes{{"pipe", "num_pp"}, {"data", "num_dp"}, {"model", "num_mp"}};
    if (has_sizes(settings, sizes)) return topology_of_sizes(settings, sizes, world);
    const auto is_said = [&](const char* name) { return settings.has(name); };
    if (settings.is_flags() && std::ranges::none_of(std::array{"axes", "pipe", "data", "model"}, is_said))
        throw UsageError(
            "the command names no file with DeepSpeed's settings; add --deepspeed_config FILE, or write "
            "data=N if all ranks are data parallel");
    const auto [axes, dims] = topology_of(settings, world, "model");
    return {{frameworks::ProcessTopology(axes, dims).mesh()}};
}

/// The configuration of experts, MiCS and hpZ over the tensor lanes of one stage; nothing for other meshes.
std::optional<Document> configuration(const Arrangement& arrangement) {
    const auto& dense = arrangement.dense();
    const auto* experts = arrangement.experts();
    const auto tp = size_of(dense, "tp");
    const auto shards = size_of(dense, "dp_shard");
    const auto inside = extra_of(arrangement, "deepspeed's zero_hpz_partition_size");
    const auto is_mics = size_of(dense, "dp_replicate") > 1 && shards > 1;
    const auto ep = experts ? size_of(*experts, "ep") : 1;
    const auto is_cut = ep > 1 && size_of(*experts, "etp") != 1;
    if (data_size(dense) * tp != dense.size() || is_cut || (!is_mics && !inside && ep == 1))
        return std::nullopt;
    auto values = Json::object();
    if (is_mics || inside) values["zero_optimization"] = Json{{"stage", 3}};
    if (is_mics) values["zero_optimization"]["mics_shard_size"] = shards;
    if (inside) values["zero_optimization"]["zero_hpz_partition_size"] = std::stoi(*inside);
    values["tensor_parallel"] = Json{{"autotp_size", tp}};
    if (ep > 1) values["expert_parallel"] = Json{{"enabled", true}, {"autoep_size", ep}};
    return Document{values, values.dump(4)};
}

Document write(const Arrangement& arrangement) {
    if (auto made = configuration(arrangement)) return *made;
    const auto dense = dense_of(arrangement);
    // In the order that moves the fewest ranks; pipe and data must be there.
    auto order = by_stride(dense);
    for (const auto* needed : {"dp", "pp"})
        if (size_of(dense, needed) == 1) order.insert(order.begin(), needed);
    return topology_document(dense, order, "model");
}

/// The document's own words, in which a configuration has one stage, and the kinds of its experts.
Words words(const Converter& rows, const Arrangement& roles, const Document& document) {
    if (document.values.contains("axes")) return rows.words(roles, document);
    const auto tp = size_of(roles.dense(), "tp");
    const auto values =
        Json{{"axes", {"pipe", "data", "model"}}, {"dims", {1, roles.dense().size() / tp, tp}}};
    auto said = rows.words(roles, {values, {}});
    if (!document.values.contains("expert_parallel")) return said;
    auto state = frameworks::State("deepspeed_groups");
    state.enter(0, roles.dense().size());
    state.set("_create_expert_and_data_parallel",
              {{"expert_parallel_size_", size_of(*roles.experts(), "ep")}});
    for (auto& kind : words_of(state.groups()).kinds) {
        kind.name = kind.name.ends_with("_data") ? "expert_data_parallel_group" : "expert_parallel_group";
        said.kinds.push_back(std::move(kind));
    }
    return said;
}

}  // namespace of_deepspeed

Converter deepspeed() {
    const auto rows = of_rows(frameworks::framework_named("deepspeed"));
    auto made = rows;
    made.read = of_deepspeed::read;
    made.write = of_deepspeed::write;
    made.words = [rows](const Arrangement& roles, const Document& document) {
        return of_deepspeed::words(rows, roles, document);
    };
    made.roles.clear();  // axes of any name
    made.notes = {
        {"cp, sp",
         "PipelineParallelGrid's dp_group is along data only; average gradients over this axis in the "
         "trainer"},
        {"dp_replicate", "DeepSpeed 0.19.8 has no MiCS (mics_shard_size); use a version before"},
        {"dp_shard", "DeepSpeed shards parameters if zero_optimization.stage is 3"}};
    made.schedules_by_stages = true;
    return made;
}

}  // namespace rankmesh::conversion
