// SPDX-License-Identifier: Apache-2.0
// The part of the subcommand plan that serves a model.
#include <algorithm>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/detail/caller.hpp>

#include "plan/names.hpp"
#include "plan/read/parts.hpp"

namespace rankmesh::plan {

using detail::in_python;

namespace of_serving {

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

}  // namespace of_serving

void answer_serving(const Question& question, bool checkpoint_cache, Answer& answer) {
    using namespace of_serving;
    auto& job = answer.job;
    if (!question.measured.empty())
        throw UsageError(cat(in_python("measured", "--measured"), " calibrates training steps, which ",
                             in_python("serve=True", "--serve"), " does not predict; leave one out"));
    if (!question.as.empty() && question.as != "vllm" && question.as != "sglang")
        throw UsageError(
            cat(in_python("serve=True", "--serve"), " plans for vllm and sglang, not for ", question.as));
    check(job);
    answer.capacity = serve_capacity(job.machine.device);
    answer.assumed.emplace_back("0.9 of the memory is the engine's, vLLM's gpu_memory_utilization");
    if (const auto weights = job.weights.value_or(job.precision);
        weights != Precision::bf16 && !job.only_experts)
        answer.assumed.push_back(cat("all matrices but embedding, head and routers in ", to_string(weights)));
    auto fix = question.fix;
    auto layout = question.explain.value_or("");
    if (!question.kv.empty() && question.kv != "bf16" && question.kv != "fp8")
        throw UsageError(cat(in_python("kv", "--kv"), " must be bf16 or fp8, not ", in_quotes(question.kv)));
    const auto cache = !question.kv.empty() ? question.kv : checkpoint_cache ? "fp8" : "";
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
    const auto kv_heads = job.model.kv_heads();
    if (const auto* one = answer.served();
        one != nullptr && kv_heads > 0 && one->layout.tp > kv_heads * one->layout.dcp)
        answer.assumed.push_back(
            cat("each of the ", kv_heads, " kv heads on ", one->layout.tp / kv_heads / one->layout.dcp,
                " ranks with the same tokens, because tp=", one->layout.tp, " exceeds their number"));
    if (answer.fits() && !question.as.empty())
        answer.settings = flags(job, answer.served()->layout, question.as);
}

}  // namespace rankmesh::plan
