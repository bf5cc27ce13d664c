// SPDX-License-Identifier: Apache-2.0
// The seconds of one micro-batch on one device, layer by layer.
#include <algorithm>
#include <cmath>

#include <rankmesh/plan/step.hpp>

#include "plan/rates.hpp"
#include "plan/stages.hpp"

namespace rankmesh::plan {

namespace of_pieces {

/// The work of a layer. Communication and memory-bound operations take as long in each pass.
struct Work {
    PassSeconds linear = {};  ///< matrix products
    double between = 0;       ///< memory-bound operations; the backward pass has twice as many
    double tp = 0;
    double ep = 0;
    double launch = 0;  ///< least seconds of the forward pass, in which the host launches experts
};

/// One layer of a kind on one device.
class OneLayer {
public:
    OneLayer(const Job& job, const Layout& layout, const Layer& kind, const Constants& constants)
        : job_(job),
          layout_(layout),
          kind_(kind),
          c_(constants),
          rates_(job, constants),
          on_(job, layout, kind),
          tp_(layout.tp),
          node_(job.machine.node),
          attention_(kind.heads > 0 ? core() : PassSeconds{}) {}

    Pieces::OfLayer pieces() const { return timed(kind_.experts == 0 ? dense() : experts()); }

private:
    /// Returns the seconds of the core of attention.
    PassSeconds core() const {
        const auto sequence = static_cast<double>(job_.sequence);
        const auto sequences = static_cast<double>(layout_.micro_batch);
        auto core = PassSeconds{};
        if (kind_.head_dim == 0) {
            // A state alone.
        } else if (job_.stack.attention == Attention::unfused) {
            const auto scores = sequences * on_.heads * sequence * sequence;
            const auto rate = rates_.dense * (kind_.head_dim % 8 == 0 ? c_.batched : c_.unaligned);
            core.forward =
                2 * scores * (on_.head + on_.value) / rate + c_.score_bytes / 3 * scores / rates_.memory;
            core.backward = 2 * core.forward;
        } else {
            const auto recent = job_.machine.device.fp8_rate > 0 ? 1 : 0;
            const auto efficiency = job_.stack.attention == Attention::early_flash ? c_.early_flash[recent]
                                    : job_.stack.attention == Attention::flash     ? c_.flash[recent]
                                                                                   : c_.newest[recent];
            // The share of all pairs of a token and an earlier one that the window holds.
            const auto near = kind_.window > 0 ? std::min(1.0, kind_.window / sequence) : 1.0;
            const auto operations = sequences * on_.heads * (sequence / layout_.cp) * sequence *
                                    (on_.head + kind_.rope_dim + on_.value) * near * (2 - near);
            core.forward = operations / (efficiency * sequence / (sequence + c_.half) * rates_.dense);
            core.backward = c_.flash_backward * core.forward;
        }
        // Each token updates the state and reads it (Dao and Gu, arXiv 2405.21060).
        const auto state = sequences * sequence / layout_.cp * 4 * static_cast<double>(kind_.state) / tp_ /
                           (c_.batched * rates_.dense);
        core += {state, 2 * state};
        return core;
    }

    /// Returns the seconds of the projections from the latent state.
    PassSeconds latent() const {
        auto up = PassSeconds{};
        if (kind_.kv_rank == 0) return up;
        const auto from = kind_.q_rank > 0 ? kind_.q_rank : on_.hidden;
        up += rates_.layer(on_.tokens, on_.heads * (on_.head + kind_.rope_dim), from);
        up += rates_.layer(on_.tokens, on_.heads * (on_.head + on_.value), kind_.kv_rank);
        return up;
    }

    PassSeconds projections() const {
        auto all = PassSeconds{};
        if (kind_.weights > 0)
            all +=
                rates_.layer(on_.tokens, static_cast<double>(kind_.weights) / on_.hidden / tp_, on_.hidden);
        if (kind_.kv_rank > 0) {
            all += rates_.layer(on_.tokens, kind_.q_rank + kind_.kv_rank + kind_.rope_dim, on_.hidden);
            all += latent();
        } else if (kind_.head_dim > 0) {
            all += rates_.layer(
                on_.tokens,
                (kind_.gate ? 2 : 1) * on_.heads * on_.head + on_.kv_heads * (on_.head + on_.value),
                on_.hidden);
        }
        if (kind_.head_dim > 0) all += rates_.layer(on_.tokens, on_.hidden, on_.heads * on_.value);
        return all;
    }

    /// Returns the seconds of a feed-forward network of `tokens` on `count` experts, or of one.
    PassSeconds feed_forward(double tokens, double width, double count = 1) const {
        auto both = rates_.layer(tokens, (kind_.matrices() - 1) * width, on_.hidden, count);
        both += rates_.layer(tokens, on_.hidden, width, count);
        return both;
    }

    /// Returns the bytes that memory-bound operations of attention and norms move.
    double bytes_between() const {
        const auto state = 2 * on_.tokens * on_.hidden * on_.split * c_.norms * on_.parts;
        return state + 4 * on_.tokens *
                           (static_cast<double>(kind_.weights) / on_.hidden / tp_ + on_.heads * on_.head +
                            on_.kv_heads * (on_.head + on_.value));
    }
    double bytes_of_width(double tokens, double width) const { return 2 * tokens * width * kind_.matrices(); }
    double seconds_of_bytes(double bytes) const {
        return bytes * (c_.elementwise * job_.stack.elementwise / rates_.memory);
    }

    /// Tensor parallelism passes the hidden state around the ring four times per pass (Korthikanti et al.,
    /// arXiv 2205.05198), twice for each part of a layer.
    double tp_seconds() const {
        return on_.parts * c_.tp * 4 *
               rates_.ring(2 * on_.tokens * on_.hidden, tp_, std::min(tp_, node_), job_.stack.hop) *
               (1 - job_.stack.tp_hidden);
    }

    PassSeconds cp_seconds() const {
        if (layout_.cp == 1 || kind_.head_dim == 0) return {};
        const auto cp = static_cast<double>(layout_.cp);
        const auto local = std::max(1.0, std::min(cp, std::floor(node_ / tp_)));
        const auto width = kind_.kv_rank > 0 ? on_.heads * (on_.head + on_.value + kind_.rope_dim)
                                             : on_.kv_heads * (on_.head + on_.value);
        const auto pass = rates_.beside(
            2 * static_cast<double>(layout_.micro_batch) * static_cast<double>(job_.sequence) * width, cp,
            local, job_.stack.hop);
        return {c_.cp * rates_.exposed(pass, attention_.forward),
                c_.cp * rates_.exposed(2 * pass, attention_.backward)};
    }

    Work dense() const {
        auto work = Work{.linear = projections(), .tp = tp_seconds()};
        if (kind_.ffn > 0) work.linear += feed_forward(on_.tokens, kind_.ffn / tp_);
        work.between = seconds_of_bytes(bytes_between() + bytes_of_width(on_.tokens, kind_.ffn / tp_));
        return work;
    }

    /// All experts are taken to be equally busy.
    Work experts() const {
        const auto etp = c_.expert_tp > 0 ? static_cast<double>(layout_.etp) : 1.0;
        const auto received = on_.tokens * kind_.top_k / tp_ * etp;
        const auto width = kind_.expert_ffn / etp;
        const auto local = kind_.experts / static_cast<double>(layout_.ep);
        auto work = Work{.linear = projections(), .launch = job_.stack.expert_launch};
        work.linear += feed_forward(received / local, width, local);
        if (kind_.shared_ffn > 0) work.linear += feed_forward(on_.tokens, kind_.shared_ffn / tp_);
        work.between =
            seconds_of_bytes(bytes_between() + bytes_of_width(on_.tokens, kind_.shared_ffn / tp_) +
                             bytes_of_width(received, width) + 2 * received * on_.hidden * c_.dispatch);
        work.ep = layout_.ep > 1 ? all_to_all(etp) : 0;
        work.ep +=
            c_.ep * 2 * rates_.ring(2 * received * on_.hidden, etp, std::min(etp, node_), job_.stack.hop);
        // Without a shared expert only attention, half of the layer, communicates over tp.
        work.tp = tp_seconds() * (kind_.shared_ffn > 0 ? 1 : kind_.heads > 0 ? 0.5 : 0);
        return work;
    }

    /// Returns the seconds in which tokens go to their experts and come back.
    double all_to_all(double etp) const {
        const auto ep = static_cast<double>(layout_.ep);
        const auto local = std::min(ep, std::max(1.0, std::floor(node_ / etp)));
        const auto element = layout_.fp8_activations ? 1.5 : 2.0;  // dispatch in FP8, combine in bfloat16
        // Tokens that a device sends to `places` of equal experts: one for each place, or for each expert.
        const auto once = job_.stack.tokens_once || layout_.dispatch_once;
        const auto copies = [&](double places) {
            return once ? places * (1 - std::pow(1 - 1 / places, kind_.top_k))
                        : static_cast<double>(kind_.top_k);
        };
        const auto bytes_of_one = element * on_.tokens / tp_ * on_.hidden;
        auto pass = bytes_of_one * copies(ep) * (ep - 1) / ep / rates_.scale_up;
        if (ep > local) {
            const auto nodes = ep / local;
            auto leave = copies(nodes);
            if (once && job_.model.most_nodes > 0) leave = std::min<double>(leave, job_.model.most_nodes);
            pass = std::max(pass, bytes_of_one * leave * (nodes - 1) / nodes / rates_.scale_out);
        }
        return c_.ep * 2 * (pass + c_.all_to_all);
    }

    /// Returns the seconds of each part that are computed again in the backward pass.
    Pieces::Parts repeated(const Work& work, double cp) const {
        const auto recompute = layout_.recompute;
        if (recompute == Recompute::selective) return {.attention = attention_.forward};
        if (recompute == Recompute::elementwise) return {.compute = work.between + latent().forward};
        if (recompute == Recompute::operations) return {.compute = work.linear.forward / 2 + work.between};
        if (recompute == Recompute::none) return {};
        return {work.linear.forward + work.between + c_.launch, attention_.forward, work.tp, cp, work.ep};
    }

    /// Returns the visible part of all-to-all, which may run beside the compute of another micro-batch.
    double shown(double seconds, double beside) const {
        if (!layout_.overlap_experts || seconds <= 0) return seconds;
        return std::max(0.0, seconds - beside) + c_.expert_overlap * std::min(seconds, beside);
    }

    Pieces::OfLayer timed(const Work& work) const {
        const auto cp = cp_seconds();
        const auto forward =
            work.linear.forward + work.between + attention_.forward + work.tp + cp.forward + c_.launch;
        const auto backward =
            work.linear.backward + 2 * work.between + attention_.backward + work.tp + cp.backward + c_.launch;
        const auto compute = work.linear.forward + work.linear.backward + 3 * work.between + 2 * c_.launch;
        const auto sent = shown(2 * work.ep, compute + attention_.forward + attention_.backward);
        const auto waits =
            layout_.overlap_experts
                ? std::max(0.0, (1 + c_.expert_backward) * work.launch - forward - backward - sent)
                : std::max(0.0, work.launch - forward - work.ep) +
                      std::max(0.0, c_.expert_backward * work.launch - backward - work.ep);
        auto one = Pieces::OfLayer{};
        auto& again = one.repeated;
        again = repeated(work, cp.forward);
        again.ep = shown(again.ep, again.compute + again.attention);
        again = {again.compute * c_.recompute, again.attention * c_.recompute, again.tp * c_.recompute,
                 again.cp * c_.recompute, again.ep * c_.recompute};
        one.again = again.sum();
        one.compute = compute + waits + again.compute;
        one.attention = attention_.forward + attention_.backward + again.attention;
        one.tp = 2 * work.tp + again.tp;
        one.cp = cp.forward + cp.backward + again.cp;
        one.ep = sent + again.ep;
        return one;
    }

    const Job& job_;
    const Layout& layout_;
    const Layer& kind_;
    const Constants& c_;
    Rates rates_;
    LayerOnDevice on_;
    double tp_;
    double node_;
    PassSeconds attention_;
};

}  // namespace of_pieces

Pieces Steps::pieces(const Layout& layout) const {
    const auto& c = *constants_;
    const auto& model = job_.model;
    const auto rates = Rates(job_, c);
    const auto hidden = static_cast<double>(model.hidden);
    const auto tp = static_cast<double>(layout.tp);
    const auto tokens = layout.micro_batch * static_cast<double>(job_.sequence) / layout.cp;
    const auto node = static_cast<double>(job_.machine.node);
    auto pieces = Pieces{};
    for (const auto& kind : model.kinds)
        pieces.kinds.push_back(of_pieces::OneLayer(job_, layout, kind, c).pieces());
    // The last projection runs in bfloat16.
    const auto logits = model.vocabulary / tp;
    const auto bf16 = c.matrix * rates.dense;
    pieces.head =
        c.head *
        (rates.product(tokens, logits, hidden, 1, bf16) + rates.product(tokens, hidden, logits, 1, bf16) +
         rates.product(logits, hidden, tokens, 1, bf16) + c.loss_bytes * tokens * logits / rates.memory +
         c.tp * c.head_passes * rates.ring(2 * tokens * hidden, tp, std::min(tp, node), job_.stack.hop));
    pieces.embedding = c.head * c.embedding * tokens * hidden / rates.memory;
    if (model.predictors > 0) {
        const auto joined = rates.layer(tokens, hidden / tp, 2 * hidden);
        pieces.head +=
            model.predictors * (pieces.head + joined.forward + joined.backward +
                                pieces.kinds[static_cast<std::size_t>(model.runs.back().kind)].sum());
    }
    return pieces;
}

}  // namespace rankmesh::plan
