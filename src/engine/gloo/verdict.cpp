// SPDX-License-Identifier: Apache-2.0
// How a lookout comes to a verdict, tells it to the other members, and throws it.
#include <algorithm>
#include <exception>

#include <rankmesh/core/text.hpp>

#include "engine/gloo/lookout.hpp"
#include "engine/gloo/note.hpp"
#include "engine/words.hpp"

namespace rankmesh::detail {
namespace {

/// `rank 3 has gone`, `the ranks {3, 4} have gone`.
std::string about(const std::vector<int>& ranks, const char* one, const char* several) {
    return ranks.size() == 1 ? cat("rank ", ranks.front(), " ", one)
                             : cat("the ranks ", ranks_to_string(ranks), " ", several);
}

}  // namespace

/// A connection broke: whoever does not hear us any more and has not said why is gone.
void Lookout::find_lost(const std::string& text) {
    auto lost = std::vector<int>{};
    for (int to = 0; to < size(); ++to)
        if (to != position_ && !gone_[static_cast<std::size_t>(to)] && !tell(to, Saying::probe, 0, 0, {}))
            lost.push_back(to);
    // What a member said before its connection broke is in the inbox by now.
    try {
        if (!take_notes()) return;
    } catch (const std::exception&) {
    }
    if (is_broken()) return;
    std::erase_if(lost, [&](int to) { return gone_[static_cast<std::size_t>(to)].load(); });
    auto verdict = Verdict{.kind = Verdict::Kind::failure, .why = cat("Gloo reports: ", text)};
    if (!lost.empty()) {
        verdict.kind = Verdict::Kind::gone;
        for (auto to : lost) verdict.lost.push_back(ranks_[static_cast<std::size_t>(to)]);
        verdict.why = about(verdict.lost, "is gone: its process has ended or can not be reached",
                            "are gone: their processes have ended or can not be reached");
    }
    condemn(std::move(verdict));
}

/// Says who is missing, now that all have answered or had the time.
void Lookout::conclude() {
    auto verdict = Verdict{.kind = Verdict::Kind::deadline, .why = {}};
    {
        const auto lock = std::lock_guard(mutex_);
        if (!waiting_ || asked_ != turns_) return;
        const auto& [call, label, number, awaited, deadline] = *waiting_;
        for (int i = 0; i < size(); ++i) {
            const auto here = i == position_ || (awaited < 0 && answered_[static_cast<std::size_t>(i)] == 2);
            if (here)
                verdict.arrived.push_back(ranks_[static_cast<std::size_t>(i)]);
            else if (awaited < 0 || i == awaited)
                verdict.missing.push_back(ranks_[static_cast<std::size_t>(i)]);
        }
        verdict.why = cat("the deadline of ", to_text(deadline), " passed on rank ",
                          ranks_[static_cast<std::size_t>(position_)], " in ", to_string(*call),
                          awaited < 0 ? ", call number " : ", message number ", number, " on ", label->text(),
                          ", group ", to_string(label->ranks), ": arrived ", ranks_to_string(verdict.arrived),
                          ", missing ", label->named(verdict.missing));
    }
    condemn(std::move(verdict));
}

void Lookout::condemn(Verdict verdict) noexcept {
    {
        const auto lock = std::lock_guard(mutex_);
        if (verdict_) return;
        verdict_ = std::move(verdict);
        if (verdict_->kind == Verdict::Kind::gone) ended_->add(verdict_->lost);
    }
    tell_verdict();
    wires_->cut();
    broken_.store(true, std::memory_order_release);
    change([] {});
}

/// Tells all members why, and waits shortly until they have it: then the connections are cut.
void Lookout::tell_verdict() noexcept {
    auto text = std::string{};
    for (const auto* list : {&verdict_->lost, &verdict_->arrived, &verdict_->missing}) {
        const auto ranks = ranks_to_string(*list);
        append(text, ranks.size() < 256 ? ranks : "{}");  // the reason says them as well
        text += '\0';
    }
    text += verdict_->why;
    for (int to = 0; to < size(); ++to)
        if (to != position_ && !gone_[static_cast<std::size_t>(to)])
            tell(to, Saying::verdict, 0, static_cast<std::uint32_t>(verdict_->kind), text);
    const auto lock = std::lock_guard(sending_);
    const auto until = from_now(Note::telling);
    for (auto& sent : sent_) {
        if (sent->note.saying != Saying::verdict) continue;
        try {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                until - std::chrono::steady_clock::now());
            sent->buffer->waitSend(std::max(left, std::chrono::milliseconds(1)));
        } catch (const std::exception&) {  // it is gone
        }
    }
}

void Lookout::explain(const std::string& text) noexcept {
    auto lock = std::unique_lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(1), [this] { return is_broken(); })) return;
    auto verdict = Verdict{.kind = Verdict::Kind::failure, .why = cat("Gloo reports: ", text)};
    for (int i = 0; i < size(); ++i)
        if (gone_[static_cast<std::size_t>(i)]) verdict.lost.push_back(ranks_[static_cast<std::size_t>(i)]);
    lock.unlock();
    if (!verdict.lost.empty()) {
        verdict.kind = Verdict::Kind::lost;
        verdict.why = about(verdict.lost, "has ended this communicator", "have ended this communicator");
    }
    condemn(std::move(verdict));
}

void Lookout::throw_verdict(const Label& label) const {
    const auto lock = std::lock_guard(mutex_);
    const auto& verdict = *verdict_;
    switch (verdict.kind) {
        case Verdict::Kind::deadline:
            throw Deadline(cat(verdict.why, "; ", label.text(), " can not be used any more"), verdict.arrived,
                           verdict.missing);
        case Verdict::Kind::gone:
        case Verdict::Kind::lost:
            throw Lost(cat(verdict.why, "; ", label.unusable(verdict.lost)), verdict.lost);
        case Verdict::Kind::failure:
            break;
    }
    throw EngineFailure(cat(verdict.why, "; ", label.unusable({})));
}

}  // namespace rankmesh::detail
