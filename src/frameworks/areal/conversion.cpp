// SPDX-License-Identifier: Apache-2.0
// What convert reads and writes beside rows: sizes in the order of the axes, and AReaL's allocation_mode.
#include <rankmesh/core/detail/number.hpp>

#include "convert/rows.hpp"
#include "convert/topology_settings.hpp"
#include "formats/text.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

namespace of_areal {

/// The sizes of a component by their letters: `d4t2`.
struct Sizes : std::map<char, int> {
    int of(char letter, int otherwise = 1) const { return contains(letter) ? at(letter) : otherwise; }
};

/// What one backend runs, on a mesh of its own: `fsdp[actor]:d8`.
struct Component {
    std::string text, name;
    Arrangement arrangement;
    bool shares = false;  ///< the ranks of the one before
};

/// An allocation_mode, read by the grammar of AReaL's alloc_mode.py.
class AllocationMode {
public:
    explicit AllocationMode(std::string_view text) : text_(text) {}

    /// Those between `+`, which have ranks of their own, and between `|`, which share those of the first.
    std::vector<Component> components() {
        auto all = std::vector<Component>{};
        auto parts = 0;
        do {
            const auto first = all.size();
            do all.push_back(component());
            while (take("|"));
            for (auto i = first + 1; i < all.size(); ++i) {
                all[i].shares = true;
                if (all[i].name.empty())
                    refuse(cat(in_quotes(all[i].text),
                               " shares ranks and has no name; write BACKEND[NAME]:SIZES"));
                if (all[i].arrangement.dense().size() != all[first].arrangement.dense().size())
                    refuse(cat(in_quotes(all[first].text), " and ", in_quotes(all[i].text),
                               " share ranks, and need equally many"));
            }
            ++parts;
        } while (take("+"));
        if (at_ != text_.size()) refuse(cat(in_quotes(text_.substr(at_)), " belongs to no component"));
        auto names = std::set<std::string>{};
        for (const auto& one : all) {
            if (one.name.empty() && parts > 1 && all.size() > 2)
                refuse(cat("of three components or more each needs a name, and ", in_quotes(one.text),
                           " has none"));
            if (!one.name.empty() && !names.insert(one.name).second)
                refuse(cat("two components are called ", in_quotes(one.name)));
        }
        return all;
    }

private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw UsageError(cat("allocation_mode is ", in_quotes(text_), ": ", why));
    }
    /// The next word, if it is this one; blanks before and behind it are left out.
    bool take(std::string_view word) {
        const auto skip = [&] { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); };
        skip();
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        skip();
        return true;
    }
    void need(std::string_view word) {
        if (!take(word)) refuse(cat("'", word, "' is missing before ", in_quotes(text_.substr(at_))));
    }
    std::string_view run_of(std::string_view characters) {
        const auto run = text_.substr(at_, text_.find_first_not_of(characters, at_) - at_);
        at_ += run.size();
        take("");
        return run;
    }
    Sizes sizes(std::string_view letters) {
        auto all = Sizes{};
        while (at_ < text_.size() && letters.find(text_[at_]) != letters.npos) {
            const auto letter = text_[at_];
            take({&letter, 1});
            const auto number = run_of("0123456789");
            const auto size = detail::number_in(number);
            if (!size || number[0] == '0' || number.size() > 9)
                refuse(cat("the size of ", std::string_view(&letter, 1), " is ", in_quotes(number),
                           "; it must be a whole number of 1 or more"));
            all[letter] = *size;
        }
        if (all.empty())
            refuse(cat("a size is missing before ", in_quotes(text_.substr(at_)), "; the letters here are ",
                       letters));
        return all;
    }

    Component component() {
        static constexpr auto backends =
            std::to_array<std::string_view>({"sglang", "vllm", "fsdp", "megatron", "archon"});
        take("");
        const auto begin = at_;
        const auto backend = std::ranges::find_if(backends, [&](auto name) { return take(name); });
        if (backend == backends.end())
            refuse("a component begins with sglang, vllm, fsdp, megatron or archon, as fsdp:d8");
        const auto infers = backend < backends.begin() + 2;
        auto made = Component{};
        if (take("[")) {
            made.name = run_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
            if (made.name.empty() || (made.name[0] >= '0' && made.name[0] <= '9'))
                refuse("a name in [] begins with a letter");
            need("]");
        }
        need(":");
        auto dense = Sizes{};
        auto experts = Sizes{};
        if (!infers && made.name.empty() && (take("(") || text_.substr(at_).starts_with("attn"))) {
            need("attn"), need(":");
            dense = sizes("cdtp");
            need("|"), need("ffn"), need(":");
            experts = sizes("detp");
            take(")");
        } else {
            dense = sizes(infers ? "dtp" : "pdtce");
            if (dense.of('e') > 1) experts['e'] = dense.of('e');
        }
        if (*backend == "fsdp" && (dense.of('p') > 1 || experts.of('e') > 1))
            refuse("fsdp has neither stages nor experts; use megatron or archon");
        made.text = formats::trimmed(text_.substr(begin, at_ - begin));
        made.arrangement = arrangement(infers, dense, experts);
        return made;
    }

    /// `d` of inference counts servers, as the controllers start them; training has its replicas inside of a
    /// stage.
    Arrangement arrangement(bool infers, const Sizes& dense, const Sizes& experts) const {
        const auto pp = dense.of('p'), dp = dense.of('d'), cp = dense.of('c'), tp = dense.of('t');
        if (infers) return {{plain_mesh({{"servers", dp}, {"pp", pp}, {"tp", tp}})}};
        auto made = Arrangement{{plain_mesh({{"pp", pp}, {"dp", dp}, {"cp", cp}, {"tp", tp}})}};
        if (experts.empty()) return made;
        const auto ep = experts.of('e'), etp = experts.of('t');
        const auto world = made.dense().size();
        const auto of_stage = world / pp;
        const auto edp = of_stage / ep / etp;  // the product of the three can be more than any integer holds
        if (experts.of('p', pp) != pp || of_stage % ep != 0 || of_stage / ep % etp != 0 ||
            experts.of('d', edp) != edp)
            refuse(
                cat("the experts' sizes do not make ", world, " ranks of ", pp, " stages, as the others do"));
        made.meshes.push_back(plain_mesh({{"pp", pp}, {"edp", edp}, {"ep", ep}, {"etp", etp}}));
        return made;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

Arrangement read_allocation_mode(const std::string& mode, Settings& settings, std::optional<int> world) {
    auto job = Job{};
    auto begin = 0;
    for (const auto& one : AllocationMode(mode).components()) {
        if (!one.shares) {
            begin = job.parts.empty() ? 0 : job.parts.back().extent();
            job.parts.emplace_back();
        }
        for (const auto& mesh : one.arrangement.meshes)
            job.parts.back().meshes.push_back(mesh.shifted(begin));
    }
    const auto ranks = job.extent();
    auto arrangement = arrangement_of(std::move(job));
    const auto known = world_of(settings, world);
    if (known && *known != ranks && *known != arrangement.dense().size())
        throw UsageError(cat("allocation_mode takes ", ranks, " ranks, but the world has ", *known,
                             "; they must be equal"));
    return arrangement;
}

const auto training = SizesOfAxes{{"pipe", "num_pp"}, {"data", "num_dp"}, {"tensor", "num_tp"}};
const auto inference = SizesOfAxes{{"data", "num_dp"}, {"pipe", "num_pp"}, {"tensor", "num_tp"}};

Arrangement read(Settings& settings, std::optional<int> world) {
    settings.start_on("cluster.n_nodes cluster.n_gpus_per_node");
    auto mode = settings.word("allocation_mode").value_or("");
    // Since 1.0 each engine says its own.
    for (const auto* engine : {"actor.backend", "rollout.backend"})
        if (const auto backend = settings.word(engine)) mode += (mode.empty() ? "" : "+") + *backend;
    if (!mode.empty()) return read_allocation_mode(mode, settings, world);
    if (has_sizes(settings, training)) {
        const auto pipe_first = settings.call() == "PipeDataTensorParallelTopology";
        if (!pipe_first && settings.call() != "DataPipeTensorParallelTopology")
            throw UsageError(
                "num_pp, num_tp and num_dp are of two topologies; write PipeDataTensorParallelTopology(...) "
                "or DataPipeTensorParallelTopology(...) around them");
        settings.ignore({"sequence_parallel", "gradient_checkpointing", "gradient_accumulation_fusion",
                         "max_prompt_len"});
        return topology_of_sizes(settings, pipe_first ? training : inference, world);
    }
    const auto [axes, dims] = topology_of(settings, world, "tensor");
    return {{areal::ProcessTopology(axes, dims).mesh()}};
}

/// The topology, which has neither cp nor experts.
Document write_topology(const Arrangement& arrangement) {
    const auto dense = dense_of(arrangement);
    const auto order = by_stride(dense);
    const auto data_first = !order.empty() && order.front() == "dp" && size_of(dense, "pp") > 1;
    using Order = std::vector<std::string>;
    return topology_document(dense, data_first ? Order{"dp", "pp", "tp"} : Order{"pp", "dp", "tp"}, "tensor");
}

/// The topology, or with cp or experts a component of allocation_mode.
Document write(const Arrangement& arrangement) {
    const auto& dense = arrangement.dense();
    const auto* experts = arrangement.experts();
    const auto cp = size_of(dense, "cp"), pp = size_of(dense, "pp");
    const auto ep = experts ? size_of(*experts, "ep") : 1;
    if (cp == 1 && ep == 1) return write_topology(arrangement);
    const auto sizes = cat("d", data_size(dense), "p", pp, "t", size_of(dense, "tp"), "c", cp);
    const auto mode = ep > 1 ? cat("megatron:(attn:", sizes, "|ffn:e", ep, "t", size_of(*experts, "etp"), ")")
                             : cat(pp == 1 ? "fsdp:" : "megatron:", sizes);
    return {Json{{"allocation_mode", mode}}, mode};
}

}  // namespace of_areal

Converter areal() {
    auto made = of_rows(frameworks::framework_named("areal"));
    made.read = of_areal::read;
    made.write = of_areal::write;
    made.write_call = of_areal::write_topology;  // the groups are the topology's
    made.roles.push_back("cp");
    return made;
}

}  // namespace rankmesh::conversion
