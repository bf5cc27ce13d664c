// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/lookout.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>

#include <rankmesh/core/text.hpp>

#include "engine/words.hpp"

namespace rankmesh::detail {
namespace {

constexpr auto slot = std::uint64_t{0x40} << 56;  // none of Gloo's collectives has it
/// How long members may take to say where they are: those that do not are silent.
constexpr auto patience = std::chrono::milliseconds(100);
constexpr auto longest_goodbye = std::chrono::seconds(5);

}  // namespace

/// It is whole once both numbers are: its bytes come in order.
struct Lookout::Note {
    std::uint64_t head = 0;
    Saying saying = Saying::probe;
    std::uint32_t yes = 0;
    std::uint64_t number = 0;
    char text[992] = {};
    std::uint64_t tail = 0;
};

/// What was told, until the channel ends: Gloo may still send it.
struct Lookout::Sent {
    Note note;
    int to = 0;
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer = nullptr;
};

Lookout::Lookout(std::shared_ptr<Wires> wires, std::vector<int> ranks)
    : wires_(std::move(wires)),
      ranks_(std::move(ranks)),
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
}

Lookout::~Lookout() {
    if (!is_broken()) say_goodbye();
    stopping_ = true;
    listening_->abortWaitRecv();
    thread_.join();
}

/// Tells all members, and waits until they have it: a goodbye that does not arrive would be taken for a crash.
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
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
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
        verdict.kind = Verdict::Kind::lost;
        for (auto to : lost) verdict.lost.push_back(ranks_[static_cast<std::size_t>(to)]);
        verdict.why = cat(lost.size() == 1 ? "rank " : "the ranks ",
                          lost.size() == 1 ? cat(verdict.lost.front()) : ranks_to_string(verdict.lost),
                          lost.size() == 1 ? " is gone: its process has ended or can not be reached"
                                           : " are gone: their processes have ended or can not be reached");
    }
    condemn(std::move(verdict));
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
            patience_ = now + patience;
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
                          ", missing ", ranks_to_string(verdict.missing));
    }
    condemn(std::move(verdict));
}

bool Lookout::tell(int to, Saying saying, std::uint64_t number, std::uint32_t yes, const std::string& text) noexcept {
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

void Lookout::condemn(Verdict verdict) noexcept {
    {
        const auto lock = std::lock_guard(mutex_);
        if (verdict_) return;
        verdict_ = std::move(verdict);
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
    const auto until = from_now(patience);
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
        verdict.why = cat(verdict.lost.size() == 1 ? "rank " : "the ranks ",
                          verdict.lost.size() == 1 ? cat(verdict.lost.front()) : ranks_to_string(verdict.lost),
                          verdict.lost.size() == 1 ? " has" : " have", " ended this communicator");
    }
    condemn(std::move(verdict));
}

void Lookout::throw_verdict(const Label& label) const {
    const auto lock = std::lock_guard(mutex_);
    const auto& verdict = *verdict_;
    const auto unusable = cat("; ", label.text(), ", group ", to_string(label.ranks), ", can not be used any more");
    switch (verdict.kind) {
        case Verdict::Kind::deadline:
            throw Deadline(cat(verdict.why, "; ", label.text(), " can not be used any more"), verdict.arrived,
                           verdict.missing);
        case Verdict::Kind::lost:
            throw Lost(cat(verdict.why, unusable), verdict.lost);
        case Verdict::Kind::failure:
            break;
    }
    throw EngineFailure(cat(verdict.why, unusable));
}

}  // namespace rankmesh::detail
