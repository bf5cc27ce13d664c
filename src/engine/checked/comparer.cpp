// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/comparer.hpp"

#include <algorithm>
#include <thread>

#include "engine/words.hpp"

namespace rankmesh::detail {
namespace {

/// Those that this thread has given something that may not be settled yet.
thread_local std::vector<std::weak_ptr<Comparer>> of_this_thread;

/// Between two looks at what others do: short at first, since most come soon.
class Pause {
public:
    void operator()() {
        if (++turns_ < 20)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }

private:
    int turns_ = 0;
};

/// What a deadline of the comparison says, said of the call that is compared.
Deadline in_words_of(const Part& part, const Deadline& deadline) {
    auto text = std::string(deadline.what());
    const auto begin = text.find(" in ");
    const auto end = text.find(" on " + part.label->text());
    if (begin < end && end != std::string::npos) text.replace(begin + 4, end - begin - 4, part.text());
    return {text, deadline.arrived, deadline.missing};
}

}  // namespace

Comparer::Comparer(std::shared_ptr<Channel> channel, const Ranks& ranks, int position,
                   std::function<void(Part&)> settled)
    : settled_(std::move(settled)),
      collectives_(*channel, ranks, [this](Part& part) { this->settled(part); }),
      messages_(*channel, ranks, position, [this](Part& part) { this->settled(part); }),
      channel_(std::move(channel)) {}

void Comparer::add(Part& part) {
    if (broken_) std::rethrow_exception(broken_);
    open_.push_back(&part);
    ++count_;
    const auto is_this = [this](const std::weak_ptr<Comparer>& other) { return other.lock().get() == this; };
    if (std::ranges::none_of(of_this_thread, is_this)) {
        std::erase_if(of_this_thread, [](const auto& other) { return other.expired(); });
        of_this_thread.push_back(weak_from_this());
    }
    try {
        if (is_point_to_point(part.call.operation))
            messages_.add(part);
        else
            collectives_.add(part);
        advance_own();
    } catch (const Misuse&) {
        withdraw(part);
        throw;
    } catch (...) {
        break_with(std::current_exception());
    }
}

void Comparer::withdraw(Part& part) {
    count_ -= static_cast<int>(std::erase(open_, &part));
    collectives_.withdraw(part);
    messages_.withdraw(part);
}

void Comparer::settled(Part& part) {
    std::erase(open_, &part);
    --count_;
    part.settled = true;
    settled_(part);
}

void Comparer::break_with(std::exception_ptr error) {
    broken_ = error;
    collectives_.clear();
    messages_.clear();
    while (!open_.empty()) {
        open_.front()->error = error;
        settled(*open_.front());
    }
}

void Comparer::advance_own() {
    try {
        collectives_.advance();
        messages_.advance();
    } catch (const Misuse&) {
        throw;
    } catch (...) {
        break_with(std::current_exception());
    }
}

void Comparer::advance() {
    advance_own();
    for (const auto& each : of_this_thread)
        if (const auto other = each.lock(); other && other.get() != this)
            // Where another thread is in a call it goes on by that.
            if (const auto lock = std::unique_lock(other->mutex_, std::try_to_lock)) other->advance_own();
    std::erase_if(of_this_thread, [](const std::weak_ptr<Comparer>& each) {
        const auto other = each.lock();
        return !other || other->count_ == 0;
    });
}

/// True if nothing else of this thread is to be compared but `own` parts here.
bool Comparer::is_last(int own) const {
    return count_ <= own && std::ranges::none_of(of_this_thread, [this](const std::weak_ptr<Comparer>& each) {
               const auto other = each.lock();
               return other && other.get() != this && other->count_ > 0;
           });
}

void Comparer::settle(Part& part, Duration deadline) {
    const auto until = from_now(deadline);
    for (auto pause = Pause(); !part.settled;) {
        if (!is_last(1) && std::chrono::steady_clock::now() < until) {
            advance();
            if (!part.settled) pause();
            continue;
        }
        try {
            if (is_point_to_point(part.call.operation))
                messages_.wait(part, deadline);
            else
                collectives_.wait(deadline);
        } catch (const Misuse&) {
            throw;
        } catch (const Deadline& passed) {
            break_with(std::make_exception_ptr(in_words_of(part, passed)));
        } catch (...) {
            break_with(std::current_exception());
        }
    }
}

void Comparer::meanwhile(const std::function<bool()>& is_over, Duration deadline) {
    const auto until = from_now(deadline);
    for (auto pause = Pause(); !is_last(0) && std::chrono::steady_clock::now() < until; pause()) {
        if (is_over()) return;
        advance();
    }
}

void Comparer::tell(Part& part, Duration deadline) {
    if (!part.telling) return;
    if (!broken_) {
        meanwhile([&] { return channel_->done(*part.telling); }, deadline);
        try {
            channel_->wait(*part.telling, *part.label, deadline);
        } catch (const Misuse&) {
            throw;
        } catch (...) {
            break_with(std::current_exception());
        }
    }
    part.telling = std::nullopt;
}

bool Comparer::is_told(const Part& part) { return broken_ || !part.telling || channel_->done(*part.telling); }

}  // namespace rankmesh::detail
