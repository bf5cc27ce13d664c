// SPDX-License-Identifier: Apache-2.0
// One rank of a job of cycles.py: loses ranks, goes on without them, lets others in, and compares every sum.
// Each cycle loses the ranks that its fate says, which print so before; what goes wrong is printed as a line
// that begins with WRONG, what happened before as notes.
//     cycles_rank NUMBER SIZE start FATES
//     cycles_rank NUMBER SIZE rejoin FATES [MOMENT:DELAY]     one that comes later, and may die of it
#include <signal.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/gloo.hpp>
#ifdef RANKMESH_FAULTS_ON_DEVICES
#include <rankmesh/engine/nccl.hpp>

#include "support/device_array.hpp"
#endif

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

constexpr auto timeout = 4s;  // of the worlds, of `grow`, and of those that come

template <class... Parts>
void say(const Parts&... parts) {
    std::printf("%s\n", detail::cat(parts...).c_str());
    std::fflush(stdout);
}

std::vector<std::string> split(const std::string& text, char by) {
    auto parts = std::vector<std::string>{};
    auto in = std::istringstream(text);
    for (auto part = std::string{}; std::getline(in, part, by);) parts.push_back(part);
    return parts;
}

/// Of a cycle, as cycles.py writes it: `VICTIM:MOMENT:SECOND:MOMENT:DELAY`, without a second one if it is -1.
struct Fate {
    int victim;
    std::string moment;  // call, short, long or grow: of the whole world
    int second;
    std::string second_moment;  // survivors, join, or grow, while the others go on without the first
    int delay;                  // of that moment, in us

    static Fate of(const std::string& text) {
        const auto part = split(text, ':');
        return {std::stoi(part.at(0)), part.at(1), std::stoi(part.at(2)), part.at(3), std::stoi(part.at(4))};
    }
};

/// What this process has open, by kind: `11 socket, 1 anon_inode:[eventpoll]`.
std::string open_descriptors() {
    auto kinds = std::map<std::string, int>{};
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
        const auto what = std::filesystem::read_symlink(each).string();
        ++kinds[what.starts_with("socket:") ? "socket" : what];
    }
    auto text = std::string{};
    for (const auto& [kind, count] : kinds)
        detail::append(text, detail::cat(text.empty() ? "" : ", ", count, " ", kind));
    return text;
}
int threads() {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

void die_after(int delay) {
    std::thread([delay] {
        std::this_thread::sleep_for(std::chrono::microseconds(delay));
        raise(SIGKILL);
    }).detach();
}

#ifdef RANKMESH_FAULTS_ON_DEVICES
constexpr auto closes_later = true;

World of(World host) { return World(nccl::World(host)); }

template <class R>
std::int64_t reduce(Communicator& on, std::int64_t value, R reduction) {
    const auto x = support::DeviceArray<std::int64_t>(1, value);
    on.start().all_reduce(*x, reduction).synchronize();
    return x.values().front();
}
void barrier(Communicator& on) { on.start().barrier().synchronize(); }
void reduce_many(Communicator& on, std::size_t size, const std::function<void()>& between) {
    const auto x = support::DeviceArray<float>(size, 1);
    auto pending = on.start().all_reduce(*x);
    between();
    pending.synchronize();
}
#else
constexpr auto closes_later = false;

World of(World host) { return host; }

template <class R>
std::int64_t reduce(Communicator& on, std::int64_t value, R reduction) {
    on.all_reduce(value, reduction);
    return value;
}
void barrier(Communicator& on) { on.barrier(); }
void reduce_many(Communicator& on, std::size_t size, const std::function<void()>& between) {
    auto data = std::vector<float>(size, 1);
    auto pending = on.start().all_reduce(data);
    between();
    pending.wait();
}
#endif

class Rank {
public:
    Rank(int number, int size, std::vector<Fate> fates)
        : number_(number), size_(size), fates_(std::move(fates)) {}

    void start() { world_.emplace(of(World::from_environment({.timeout = timeout}))); }
    void rejoin(const std::string& death) {
        cycle_ = std::numeric_limits<std::int64_t>::max();
        if (death.starts_with("enter:")) arm(std::stoi(death.substr(6)), "to enter");
        while (!world_) {
            try {
                world_.emplace(of(World::rejoin({.timeout = timeout})));
            } catch (const Timeout& late) {  // the others wait for one that has ended
                note(late.what());
                if (!late.missing.empty()) throw;
            }
        }
        if (death.starts_with("entered:")) arm(std::stoi(death.substr(8)), "to enter");
    }

    void run() {
        for (;;) {
            try {
                if (world_->size() < size_)
                    let_in();
                else if (!step())
                    return;
            } catch (const PeerLost& lost) {
                note(lost.what());
                expect_victims(lost.ranks, lost.what(), false);
                go_on_without();
            } catch (const Timeout& late) {
                note(late.what());
                ++timeouts_;
                if (late.missing.empty() && world_->size() < size_) continue;  // nobody has come
                // What had ended before it came to a join is missing there.
                expect_victims(late.missing, late.what(), true);
                go_on_without();
            }
        }
    }

private:
    /// What is shown only where something goes wrong.
    template <class... Parts>
    void note(const Parts&... parts) const {
        const auto now = std::chrono::steady_clock::now().time_since_epoch();
        say("note ", std::chrono::duration_cast<std::chrono::milliseconds>(now).count() % 1'000'000,
            " ms, cycle ", cycle_ - 1, ": ", parts...);
    }
    void arm(int delay, const std::string& as) {
        armed_ = true;
        say("dies ", as);
        die_after(delay);
    }
    /// As the second to die in this cycle.
    void arm_at(const std::string& moment) {
        if (armed_ || !recovers_) return;
        const auto& fate = fates_[static_cast<std::size_t>(cycle_ - 1)];
        if (fate.second == number_ && fate.second_moment == moment)
            arm(fate.delay, detail::cat("second ", cycle_ - 1));
    }

    void go_on_without() {
        if (doomed_) raise(SIGKILL);  // the call was not even made
        arm_at("survivors");
        // Longer than a rank may wait for the lost one in a join.
        replace(world_->survivors(3 * timeout));
    }
    void let_in() {
        arm_at("join");
        look_around();
        arm_at("grow");
        replace(world_->grow(size_ - world_->size(), timeout));
    }

    /// A member lives until the world has been replaced: what it is connected to tells of ranks that end, and
    /// one that is destroyed by an exception would leave.
    Member& join(const Declaration& plan) { return members_.emplace_back(world_->join({plan})); }
    void replace(World&& next) {
        places_.clear();
        world_ = std::move(next);
        members_.erase(members_.begin(), members_.end() - std::min<std::ptrdiff_t>(std::ssize(members_), 2));
        note("is ", world_->rank(), " of ", world_->size());
    }

    /// Who is here, by what each gives to a sum.
    void look_around() {
        auto on = join({.mesh = {{"dp", rest}}}).on("dp");
        const auto bits = static_cast<std::uint64_t>(reduce(on, std::int64_t{1} << number_, sum));
        const auto below = bits & ((std::uint64_t{1} << number_) - 1);
        if (bits >> size_ != 0 || std::popcount(bits) != world_->size() ||
            std::popcount(below) != world_->rank() || (bits >> number_ & 1) == 0)
            say("WRONG sum ", bits, " on rank ", world_->rank(), " of ", world_->size());
        places_.clear();
        for (int place = 0; place < size_; ++place)
            if ((bits >> place & 1) != 0) places_.push_back(place);
    }

    /// One cycle up to a loss; false after the last.
    bool step() {
        look_around();
        recovers_ = false;
        auto on = join({.mesh = {{"dp", 2}, {"tp", rest}}, .over = {{"dp", "tp"}}}).on("dp", "tp");
        cycle_ = reduce(on, cycle_, min);
        if (reduce(on, std::int64_t{armed_ ? 0 : 1}, min) == 0) {  // somebody is still to die
            if (armed_) raise(SIGKILL);
            while (true) barrier(on);
        }
        members_.erase(members_.begin(), members_.end() - 2);
        check_held(on);
        if (cycle_ == std::ssize(fates_)) return finish();
        ++cycles_;
        const auto& fate = fates_[static_cast<std::size_t>(cycle_++)];
        recovers_ = true;
        const auto dies = fate.victim == number_;
        doomed_ = dies;
        if (dies) say("dies first ", cycle_ - 1);
        if (dies && fate.moment == "call") raise(SIGKILL);
        if (fate.moment == "grow") {
            if (dies) die_after(fate.delay);
            world_->grow(1, timeout);
        }
        reduce_many(on, fate.moment == "short" ? 1 : 300'000, [&] {
            if (dies) raise(SIGKILL);
        });
        while (true) barrier(on);
    }

    /// At the beginning of each cycle a rank holds what it held at that of its first: worlds that were left
    /// keep no descriptor and no thread.
    void check_held(Communicator& on) {
        auto open = open_descriptors();
        auto running = threads();
        if (open_.empty()) std::tie(open_, threads_) = std::pair(open, running);
        // The system lists a thread for a moment after it was joined, and NCCL's communicators are ended on
        // the thread of the device.
        for (auto i = 0; i < 200 && (running != threads_ || (closes_later && open != open_)); ++i) {
            std::this_thread::sleep_for(5ms);
            running = threads();
            if (closes_later) open = open_descriptors();
        }
        if (open != open_) say("WRONG holds ", open, " after ", cycles_, " cycles instead of ", open_);
        if (running != threads_)
            say("WRONG has ", running, " threads after ", cycles_, " cycles instead of ", threads_);
        barrier(on);  // nobody dies before all have looked, as connections that break are closed
    }

    bool finish() {
        say("done, ", cycles_, " cycles, ", timeouts_, " timeouts");
        std::this_thread::sleep_for(300ms);  // who leaves may take from others the call that it has ended
        return false;
    }

    /// Those that are lost are victims of this cycle; those that are `late` may be waiting for one.
    void expect_victims(const std::vector<int>& ranks, const std::string& text, bool late) {
        if (places_.empty() || cycle_ > std::ssize(fates_)) return;  // in a world that nobody has seen whole
        // The others may have begun the next cycle, of which this rank has lost the victim as it was about
        // to.
        const auto is_victim = [&](int rank) {
            const auto place = places_.at(static_cast<std::size_t>(rank));
            return std::ranges::any_of(std::array{cycle_ - 1, cycle_}, [&](std::int64_t cycle) {
                if (cycle < 0 || cycle >= std::ssize(fates_)) return false;
                const auto& fate = fates_[static_cast<std::size_t>(cycle)];
                return place == fate.victim || place == fate.second;
            });
        };
        const auto right = (late ? std::ranges::any_of(ranks, is_victim)
                                 : !ranks.empty() && std::ranges::all_of(ranks, is_victim));
        if (!right) say("WRONG loss of ", ranks_to_string(ranks), " in cycle ", cycle_ - 1, ": ", text);
    }

    const int number_;  // its place
    const int size_;
    const std::vector<Fate> fates_;
    std::optional<World> world_;
    std::vector<Member> members_ = {};
    std::vector<int> places_ = {};  // of the world's ranks, where they have been seen
    std::int64_t cycle_ = 0;        // the next one
    int cycles_ = 0;                // seen here
    int timeouts_ = 0;
    bool armed_ = false;     // about to die
    bool doomed_ = false;    // the victim of this cycle
    bool recovers_ = false;  // from the loss of the cycle's victim
    std::string open_ = {};  // at the beginning of its first cycle
    int threads_ = 0;        // as well
};

}  // namespace

int main(int argc, char** argv) {
    try {
        auto fates = std::vector<Fate>{};
        for (const auto& each : split(argv[4], ',')) fates.push_back(Fate::of(each));
        auto rank = Rank(std::stoi(argv[1]), std::stoi(argv[2]), std::move(fates));
        if (argv[3] == std::string("start"))
            rank.start();
        else
            rank.rejoin(argc > 5 ? argv[5] : "");
        rank.run();
        return 0;
    } catch (const std::exception& error) {
        say("WRONG error: ", error.what());
        return 1;
    }
}
