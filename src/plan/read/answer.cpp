// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/answer.hpp>

#include <limits>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/plan/read.hpp>

#include "formats/file.hpp"
#include "plan/read/family.hpp"

namespace rankmesh::plan {

namespace of_answer {

std::string file(const std::string& path) {
    const auto name = detail::excerpt(path, 400);
    auto text = formats::content_of(path, name);
    if (text.size() > formats::most_bytes)
        throw UsageError(cat(name, " has more than ", formats::most_bytes, " bytes, the limit of a file"));
    return text;
}

/// Returns the constants of a framework, which may have another name in convert.
Stack stack_of(std::string_view framework) {
    const auto other = of_read::value_in("stacks", framework);
    return stack(other.empty() ? framework : other);
}

Device device_of(const Question& question, const Cluster& cluster) {
    auto own = std::vector<Device>{};
    if (!question.devices_file.empty())
        own = read_devices(file(question.devices_file), detail::excerpt(question.devices_file, 400));
    auto names = names_of(own);
    for (const auto name : names_of(devices())) names.push_back(name);
    if (question.device.empty())
        throw UsageError(cat("the type of the devices of ", to_string(cluster),
                             " is missing, so their memory and speed are unknown; add ",
                             detail::in_python("device=NAME", "--device NAME"), ", one of ", listed(names),
                             ", or ", detail::in_python("devices_file=FILE", "--devices-file FILE"),
                             " with other devices"));
    for (const auto& one : own)
        if (is_named(one, question.device)) return one;
    return device(question.device);
}

void set_size(Job& job, const Question& question, std::vector<std::string>& assumed) {
    const auto devices = detail::in_python("devices", "--gpus");
    const auto ask = [](std::string_view option, std::int64_t value, const char* what) {
        if (value < 1 || value > std::numeric_limits<int>::max())
            throw UsageError(
                cat(option, " is ", value, "; ", what, " must be a whole number from 1 to 2147483647"));
        return value;
    };
    job.devices = static_cast<int>(
        ask(devices, question.devices.value_or(question.on->size()), "the number of devices"));
    if (job.devices > question.on->size())
        throw UsageError(cat(devices, " is ", job.devices, ", but ", to_string(*question.on), " has ",
                             question.on->size()));
    if (!question.devices && job.devices > 1)
        assumed.push_back(cat("all ", counted(job.devices, "device"), " of the cluster"));
    if (question.sequence) {
        job.sequence =
            ask(detail::in_python("seq", "--seq"), *question.sequence, "the number of tokens per sequence");
    } else if (job.model.sequence > 0) {
        job.sequence = job.model.sequence;
        assumed.push_back(cat(question.serve ? "requests" : "sequences", " of ", job.sequence,
                              " tokens, which is the model's"));
    } else {
        throw UsageError(
            cat("the model has no sequence length; add ", detail::in_python("seq=TOKENS", "--seq TOKENS")));
    }
    if (question.batch) {
        job.batch =
            ask(detail::in_python("batch", "--batch"), *question.batch, "the number of sequences per step");
        return;
    }
    if (question.serve) {
        job.batch = std::int64_t{8} * job.devices;
        assumed.push_back(cat(job.batch, " requests at a time, 8 for each device"));
        return;
    }
    constexpr auto tokens = std::int64_t{4} << 20;
    const auto unit = std::max(std::int64_t{1}, (job.devices + std::int64_t{7}) / 8);
    const auto least = std::max(unit, (tokens + job.sequence - 1) / job.sequence);
    job.batch = (least + unit - 1) / unit * unit;
    assumed.push_back(cat("a batch of ", counted(job.batch, "sequence"),
                          ": 4 Mi tokens or more, and one for every eight devices or more"));
}

/// Adds the assumed bandwidths of links that the cluster does not give.
void say_links(const Cluster& cluster, const Machine& machine, std::vector<std::string>& assumed) {
    const auto levels = cluster.levels();
    if (!cluster.is_even())
        assumed.push_back(cat("nodes of ", machine.node, " devices, as the largest have"));
    const auto say = [&](double bandwidth, std::string_view where) {
        assumed.push_back(cat(static_cast<std::int64_t>(bandwidth / 1e9), " GB/s for each device ", where,
                              ", which is typical of ", machine.device.name));
    };
    if (!levels.back().bandwidth) say(machine.scale_up, "inside a node");
    if (levels.size() > 1 && !levels[levels.size() - 2].bandwidth) say(machine.scale_out, "between nodes");
}

void say_copies(Answer& answer, int tp, int dcp, std::string_view tokens) {
    const auto heads = answer.job.model.kv_heads();
    if (heads > 0 && tp > heads * dcp)
        answer.assumed.push_back(cat("each of the ", heads, " kv heads on ", tp / heads / dcp, " ranks",
                                     tokens, ", because tp=", tp, " exceeds their number"));
}

/// Reads the value of an option; `wide`: bf16 or fp8 only.
std::optional<Precision> type_of(const std::string& text, std::string_view option, bool wide = true) {
    if (text.empty()) return std::nullopt;
    const auto found = precision_of(text);
    if (!found || (wide && *found > Precision::fp8))
        throw UsageError(cat(detail::in_python(option, cat("--", option)), " must be ",
                             wide ? "bf16 or fp8" : "bf16, fp8, int8, nvfp4, mxfp4 or int4", ", not ",
                             in_quotes(text)));
    return found;
}

void set_precisions(Answer& answer, const Question& question, const Checkpoint& checkpoint) {
    auto& job = answer.job;
    auto& assumed = answer.assumed;
    const auto& device = job.machine.device;
    const auto all = type_of(question.precision, "precision");
    job.weights = type_of(question.weights, "weights", false);
    if (!question.serve && (job.weights || !question.kv.empty()))
        throw UsageError(
            cat(job.weights ? detail::in_python("weights", "--weights") : detail::in_python("kv", "--kv"),
                " belongs to ", detail::in_python("serve=True", "--serve"), "; training holds weights as ",
                detail::in_python("compute", "--compute"), " says, and no cache"));
    if (question.serve && !job.weights && !all && checkpoint.weights) {
        job.weights = checkpoint.weights;
        job.only_experts = checkpoint.only_experts;
        assumed.push_back(cat(!job.only_experts         ? "weights in "
                              : job.model.experts() > 0 ? "experts in "
                                                        : "feed-forward networks in ",
                              to_string(*job.weights), ", as quantization_config says"));
    } else if (!question.serve && checkpoint.weights) {
        answer.notes.emplace_back(
            "not used: quantization_config, because training does not start from quantized weights");
    }
    const auto weights = job.weights.value_or(all.value_or(Precision::bf16));
    const auto given = type_of(question.compute, "compute");
    const auto narrow = weights == Precision::fp8 && device.fp8_rate > 0 ? Precision::fp8 : Precision::bf16;
    job.precision = given ? *given : all ? *all : narrow;
    if (job.precision == Precision::fp8 && device.fp8_rate <= 0)
        assumed.push_back(cat("no gain from fp8, because ", device.name, " has no matrix products in it"));
    if (!device.bf16)
        assumed.push_back(cat("matrix products in float16, because ", device.name, " has none in bfloat16"));
    else if (!given && !all)
        assumed.push_back(cat("matrix products in ", to_string(job.precision),
                              weights > Precision::fp8 ? ", to which weights are widened" : ""));
}

/// Excludes the layouts that a framework cannot run. Knows only the frameworks for which plan writes settings
/// besides the mesh.
void restrict_to(std::string_view framework, Options& options) {
    if (framework == "megatron") {
        // Its distributed optimizer shards only the optimizer.
        options.zero.most = std::min(options.zero.most, 1);
        // It counts the layers of each chunk.
        // It hides all-to-all of experts behind another chunk.
        options.allows = [](const Layout& l) {
            return l.recompute_layers % l.vpp == 0 && (!l.overlap_experts || l.pp == 1 || l.vpp > 1);
        };
    } else if (framework == "torchtitan") {
        // Its FSDP shards everything. Interleaved schedules have two stages per rank by default.
        options.zero.least = std::max(options.zero.least, 2);
        options.vpp.most = std::min(options.vpp.most, 2);
        options.recompute = {Recompute::none, Recompute::operations, Recompute::full};
        options.uneven = options.some_layers = false;
    } else if (framework == "olmo") {
        // Its FSDP shards everything. In a pipeline, parameters stay gathered. Experts exclude tensor
        // parallelism.
        options.zero.least = std::max(options.zero.least, 2);
        options.vpp.most = 1;
        options.recompute = {Recompute::none, Recompute::full};
        options.some_layers = false;
        options.allows = [](const Layout& l) {
            return l.zero == (l.pp > 1 ? 2 : 3) && (l.ep == 1 || l.tp == 1);
        };
    }
}

/// Returns the flags of `vllm serve` or of SGLang's `launch_server`.
FrameworkSettings flags(const Job& job, const ServeLayout& layout, const std::string& engine) {
    const auto vllm = engine == "vllm";
    auto said = FrameworkSettings{.framework = engine};
    // Each engine numbers ranks in its own order, tp first.
    said.mesh = vllm ? cat("dp=", layout.dp, " pp=", layout.pp, " tp=", layout.tp)
                     : cat("pp=", layout.pp, " dp=", layout.dp, " tp=", layout.tp);
    const auto conversion = convert("rankmesh", engine, {said.mesh}, layout.devices());
    said.text = conversion.text.value_or("");
    const auto add = [&](const auto&... parts) { said.text += cat(said.text.empty() ? "" : " ", parts...); };
    if (layout.ep > 1) vllm ? add("--enable-expert-parallel") : add("--expert-parallel-size ", layout.ep);
    if (layout.dcp > 1) add("--decode-context-parallel-size ", layout.dcp);
    if (layout.fp8_cache) add("--kv-cache-dtype ", vllm ? "fp8" : "fp8_e4m3");
    if (vllm)
        add("--max-model-len ", job.sequence, " --max-num-seqs ", (job.batch + layout.dp - 1) / layout.dp);
    else
        add("--context-length ", job.sequence, " --max-running-requests ", job.batch);
    if (!vllm && layout.dp > 1)
        said.notes.emplace_back("SGLang cuts dense feed-forward networks over dp*tp ranks; plan counts tp");
    return said;
}

std::optional<Served> first_that_fits(const Job& job, std::vector<std::string> fix,
                                      const std::vector<std::string>& most) {
    for (int attempt = 0; attempt < 2; ++attempt) {
        if (auto found = serve_search(job, fix, most); !found.best.empty()) return found.best.front();
        fix.emplace_back("cache=fp8");
    }
    return std::nullopt;
}

void answer_serving(const Question& question, bool checkpoint_cache, Answer& answer) {
    auto& job = answer.job;
    if (!question.measured.empty())
        throw UsageError(cat(detail::in_python("measured", "--measured"),
                             " calibrates training steps, which ", detail::in_python("serve=True", "--serve"),
                             " does not predict; leave one out"));
    if (!question.as.empty() && question.as != "vllm" && question.as != "sglang")
        throw UsageError(cat(detail::in_python("serve=True", "--serve"),
                             " plans for vllm and sglang, not for ", question.as));
    check(job);
    answer.capacity = serve_capacity(job.machine.device);
    answer.assumed.emplace_back("0.9 of the memory is the engine's, vLLM's gpu_memory_utilization");
    if (const auto weights = job.weights.value_or(job.precision);
        weights != Precision::bf16 && !job.only_experts)
        answer.assumed.push_back(cat("all matrices but embedding, head and routers in ", to_string(weights)));
    auto fix = question.fix;
    auto layout = question.explain.value_or("");
    const auto cache = type_of(question.kv, "kv") ? question.kv : checkpoint_cache ? "fp8" : "";
    const auto names_cache = [](const std::string& text) { return text.find("cache=") != std::string::npos; };
    if (!cache.empty() && !names_cache(layout) && std::ranges::none_of(fix, names_cache)) {
        fix.push_back("cache=" + cache);
        layout += " cache=" + cache;
        if (question.kv.empty()) answer.assumed.emplace_back("KV cache in fp8, as the checkpoint says");
    }
    if (job.model.experts() > 0) answer.assumed.emplace_back("all experts are equally likely");
    auto& serve = answer.serve.emplace();
    answer.count = question.count;
    if (question.explain) {
        serve.explained = plan::serve(job, read_serve_layout(layout, job.devices));
        const auto same = cat("cache=", serve.explained->layout.fp8_cache ? "fp8" : "bf16");
        if (!answer.fits()) serve.change = first_that_fits(job, {same}, {});
    } else {
        serve.found = serve_search(job, fix, question.most);
        if (serve.found->best.empty()) serve.change = first_that_fits(job, fix, question.most);
    }
    if (const auto* one = answer.served(); one != nullptr)
        say_copies(answer, one->layout.tp, one->layout.dcp, " with the same tokens");
    if (answer.fits() && !question.as.empty())
        answer.settings = flags(job, answer.served()->layout, question.as);
}

void answer_training(const Question& question, Answer& answer) {
    auto& job = answer.job;
    job.stack = stack_of(question.as);
    if (question.as.empty())
        answer.assumed.push_back(cat("no framework: the typical behaviour of all measured frameworks; ",
                                     detail::in_python("as_=FRAMEWORK", "--as FRAMEWORK"), " names one"));
    check(job);
    answer.capacity = capacity(job.machine.device);
    if (!question.measured.empty()) {
        const auto measured = read_measured(file(question.measured), detail::excerpt(question.measured, 400));
        answer.calibration = calibrate(job, measured);
    }
    if (question.explain) {
        answer.explained = explain(job, read_layout(*question.explain, job.devices));
    } else {
        auto options = Options{
            .count = std::max(question.count, std::size_t{2}),
            .capacity = static_cast<std::int64_t>(static_cast<double>(answer.capacity) / (1 + memory_error)),
            .progress = question.progress};
        restrict_to(question.as, options);
        const auto says_tp = [](const std::string& text) { return text.starts_with("tp="); };
        if (std::ranges::none_of(question.fix, says_tp) && std::ranges::none_of(question.most, says_tp) &&
            job.devices > job.machine.node) {
            options.tp.most = job.machine.node;
            answer.assumed.push_back(cat("tp inside a node of ", job.machine.node,
                                         " devices, because no measured step has tp across nodes; ",
                                         detail::in_python("max={'tp': N}", "--max tp=N"),
                                         " searches further"));
        }
        for (const auto& text : question.fix) fix(options, text);
        for (const auto& text : question.most) limit(options, text);
        answer.count = question.count;
        answer.found = search(job, options);
        answer.help = what_would_help(job, *answer.found, options);
        if (answer.found->best.empty() && answer.found->smallest) {
            answer.relaxed = fits_with(job, options);
            options.capacity = answer.capacity;
            if (const auto close = search(job, options).best; !close.empty()) answer.tight = close.front();
        }
    }
    if (const auto* planned = answer.planned(); planned != nullptr)
        say_copies(answer, planned->layout.tp, 1, "");
    if (answer.fits() && !question.as.empty())
        answer.settings = settings(job, answer.planned()->layout, question.as, *question.on);
}

}  // namespace of_answer

const Planned* Answer::planned() const {
    if (explained) return &explained->planned;
    return found && !found->best.empty() ? &found->best.front() : nullptr;
}

const Served* Answer::served() const {
    if (!serve) return nullptr;
    if (serve->explained) return &*serve->explained;
    return serve->found->best.empty() ? nullptr : &serve->found->best.front();
}

Fit Answer::fit() const {
    if (const auto* one = served()) return plan::fit(one->memory.estimate, capacity);
    const auto* one = planned();
    return one == nullptr ? Fit::too_large : plan::fit(one->memory.estimate, capacity);
}

Answer answer(const Question& question) {
    using namespace of_answer;
    auto answer = Answer{};
    auto& job = answer.job;
    auto checkpoint = Checkpoint{};
    job.model = read_model(question.model, &checkpoint);
    answer.notes = checkpoint.notes;
    if (!question.on)
        throw UsageError(cat("plan requires a cluster; add ", detail::in_python("on=CLUSTER", "--on CLUSTER"),
                             ", such as 'node:32(400GB/s,5us) gpu:8(450GB/s,2us)'"));
    answer.on = to_string(*question.on);
    job.machine = machine(*question.on, device_of(question, *question.on));
    set_size(job, question, answer.assumed);
    set_precisions(answer, question, checkpoint);
    const auto& device = job.machine.device;
    if (!device.measured && !question.serve)
        answer.assumed.push_back(cat("rates of ", device.name,
                                     " from its data sheet and single matrix products, because no "
                                     "training step on it is published"));
    say_links(*question.on, job.machine, answer.assumed);
    const auto names = names_of(known_frameworks());
    if (!question.as.empty() && std::ranges::find(names, question.as) == names.end())
        throw UsageError(cat("no framework is named ", in_quotes(question.as), "; ",
                             detail::in_python("as_", "--as"), " takes one of ", listed(names),
                             did_you_mean(question.as, names)));
    if (question.serve)
        answer_serving(question, checkpoint.fp8_cache, answer);
    else
        answer_training(question, answer);
    return answer;
}

}  // namespace rankmesh::plan
