// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/lookout.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>

#include <rankmesh/core/text.hpp>

#include "engine/gloo/last_words.hpp"
#include "engine/gloo/note.hpp"
#include "engine/words.hpp"

namespace rankmesh::detail {
namespace {

constexpr auto slot = std::uint64_t{0x40} << 56;  // none of Gloo's collectives has it
constexpr auto longest_goodbye = std::chrono::seconds(5);

}  // namespace

Lookout::Lookout(std::shared_ptr<Wires> wires, std::vector<int> ranks, std::shared_ptr<Ended> ended)
    : wires_(std::move(wires)),
      ranks_(std::move(ranks)),
      ended_(std::move(ended)),
      position_(wires_->rank),
      inbox_(std::make_unique<Note[]>(ranks_.size())),
      heard_(ranks_.size(), 0),
      gone_(ranks_.size()),
      answered_(ranks_.size(), 0),
      told_(ranks_.size(), 0),
      listening_(wires_->buffer(inbox_.get(), sizeof(Note) * ranks_.size())),
      alarm_(AlarmClock::of_process(), [this] { wake(); }),
      second_(AlarmClock::of_process(), [this] { wake(); }) {
    for (int from = 0; from < size(); ++from)
        if (from != position_) expect(from);
    thread_ = std::thread([this] { listen(); });
    add_last_words(*this);
}

Lookout::~Lookout() {
    remove_last_words(*this);
    if (!is_broken()) say_goodbye();
    stopping_ = true;
    listening_->abortWaitRecv();
    thread_.join();
}

/// Tells all members, and waits until they have it: a goodbye that does not arrive would be taken for a
/// crash.
void Lookout::say_goodbye() noexcept {
    for (int to = 0; to < size(); ++to)
        if (to != position_ && !gone_[static_cast<std::size_t>(to)]) tell(to, Saying::goodbye, 0, 0, {});
    auto goodbyes = std::vector<Sent*>{};
    {
        const auto lock = std::lock_guard(sending_);
        for (const auto& sent : sent_)
            if (sent->note.saying == Saying::goodbye) goodbyes.push_back(sent.get());
    }
    const auto until = from_now(longest_goodbye);
    for (auto* sent : goodbyes) {
        if (gone_[static_cast<std::size_t>(sent->to)]) continue;
        try {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                until - std::chrono::steady_clock::now());
            sent->buffer->waitSend(std::max(left, std::chrono::milliseconds(1)));
        } catch (const std::exception&) {  // it does not listen
        }
    }
}

Lookout::Note& Lookout::inbox(int from) const { return inbox_[static_cast<std::size_t>(from)]; }

void Lookout::expect(int from) {
    listening_->recv(from, slot, static_cast<std::size_t>(from) * sizeof(Note), sizeof(Note));
}

void Lookout::wake() noexcept { listening_->abortWaitRecv(); }

void Lookout::wait_for(const Waiting& waiting) {
    {
        const auto lock = std::lock_guard(mutex_);
        waiting_ = waiting;
        until_ = from_now(waiting.deadline);
        ++turns_;
    }
    alarm_.set(until_);
}

void Lookout::await(int position) {
    const auto lock = std::lock_guard(mutex_);
    if (waiting_) waiting_->awaited = position;
}

void Lookout::arrive() {
    alarm_.clear();
    const auto lock = std::lock_guard(mutex_);
    waiting_ = std::nullopt;
}

std::string Lookout::last_words() const {
    const auto lock = std::unique_lock(mutex_, std::try_to_lock);
    if (!lock || !waiting_) return {};
    const auto& [call, label, number, awaited, deadline] = *waiting_;
    const auto left = until_ - std::chrono::steady_clock::now();
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - left);
    return cat("  rank ", ranks_[static_cast<std::size_t>(position_)], " [", label->member, "] was in ",
               to_string(*call), awaited < 0 ? ", call number " : ", message number ", number, " on ",
               label->text(), ", group ", to_string(label->ranks), ", for ", waited.count(), " ms\n");
}

/// The thread: hears notes, and looks at deadlines when it is woken.
void Lookout::listen() {
    while (!stopping_ && !is_broken()) {
        try {
            listening_->waitRecv(without_end);
            if (!take_notes()) return;
        } catch (const std::exception& error) {
            if (stopping_) return;
            find_lost(error.what());
            return;
        }
        if (stopping_) return;
        look_at_deadline();
    }
}

/// Hears every note that is whole; false if one was a verdict. Throws if one can not be followed by another.
bool Lookout::take_notes() {
    auto trouble = std::exception_ptr{};
    for (int from = 0; from < size(); ++from) {
        const auto f = static_cast<std::size_t>(from);
        const auto& note = inbox(from);
        if (from == position_ || gone_[f] || note.tail != heard_[f] + 1 || note.head != note.tail) continue;
        ++heard_[f];
        hear(from, note);
        if (is_broken()) return false;
        if (gone_[f]) continue;
        try {
            expect(from);
        } catch (const std::exception&) {
            trouble = std::current_exception();
        }
    }
    if (trouble) std::rethrow_exception(trouble);
    return true;
}

void Lookout::hear(int from, const Note& note) {
    const auto f = static_cast<std::size_t>(from);
    switch (note.saying) {
        case Saying::question:
            tell(from, Saying::answer, note.number,
                 collectives_.load(std::memory_order_acquire) >= note.number ? 1 : 0, {});
            break;
        case Saying::answer:
            if (note.number == question_) answered_[f] = note.yes ? 2 : 1;
            break;
        case Saying::goodbye:
            gone_[f] = true;
            {
                // Gloo does not always notice that what is on its way to it has no reader any more.
                const auto lock = std::lock_guard(sending_);
                for (const auto& sent : sent_)
                    if (sent->to == from) sent->buffer->abortWaitSend();
            }
            break;
        case Saying::probe:
            break;
        case Saying::verdict: {
            auto verdict = Verdict{.kind = static_cast<Verdict::Kind>(note.yes), .why = {}};
            const auto any = std::numeric_limits<int>::max();
            const auto* text = note.text;
            for (auto* list : {&verdict.lost, &verdict.arrived, &verdict.missing}) {
                *list = parse_ranks(text, any);
                text += std::strlen(text) + 1;
            }
            verdict.why = text;
            condemn(std::move(verdict));
            break;
        }
    }
}

void Lookout::look_at_deadline() {
    auto number = std::uint64_t{};
    {
        const auto lock = std::lock_guard(mutex_);
        const auto now = std::chrono::steady_clock::now();
        if (!waiting_) {
            asked_ = std::nullopt;
            return;
        }
        if (asked_ == turns_) {
            const auto silent = std::ranges::count(answered_, 0) - 1;  // this member asks nobody
            if (silent > 0 && now < patience_) return;
        } else if (now < until_) {
            return;
        } else {
            asked_ = turns_;
            std::ranges::fill(answered_, 0);
            patience_ = now + Note::patience;
            number = waiting_->awaited < 0 ? waiting_->number : 0;
            question_ = number;
            if (number > 0) second_.set(patience_);
        }
    }
    if (number > 0) {
        for (int to = 0; to < size(); ++to)
            if (to != position_) tell(to, Saying::question, number, 0, {});
        return;
    }
    conclude();
}

bool Lookout::tell(int to, Saying saying, std::uint64_t number, std::uint32_t yes,
                   const std::string& text) noexcept {
    try {
        const auto lock = std::lock_guard(sending_);
        auto sent = std::make_unique<Sent>();
        sent->to = to;
        auto& note = sent->note;
        note.saying = saying;
        note.yes = yes;
        note.number = number;
        note.head = note.tail = told_[static_cast<std::size_t>(to)] + 1;
        std::memcpy(note.text, text.data(), std::min(text.size(), sizeof note.text - 1));
        sent->buffer = wires_->buffer(&note, sizeof note);
        sent->buffer->send(to, slot);
        ++told_[static_cast<std::size_t>(to)];
        sent_.push_back(std::move(sent));
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

}  // namespace rankmesh::detail
