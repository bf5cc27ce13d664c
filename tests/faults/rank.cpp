// SPDX-License-Identifier: Apache-2.0
// One rank of a job of faults.py: makes the calls that its arguments list, compares every element, puts the
// fault into effect if it is the victim, and prints each event as a line of JSON.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/engine/sparse.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/engine/world.hpp>
#ifdef RANKMESH_FAULTS_ON_DEVICES
#include <rankmesh/engine/nccl.hpp>

#include "support/device_array.hpp"
#endif

using namespace rankmesh;

namespace {

/// One call of the program, as faults.py writes it: `ID:AXES:OPERATION:LENGTH:TYPE:REDUCTION:ROOT:HOW:TAG`.
struct Step {
    int id = 0;  // what its data are made of; the same on all ranks that make the same call
    std::string axes, operation;
    std::size_t length = 0;  // of one part
    std::string type, reduction;
    int root =
        0;  // of a message: its sender; the receiver is the next group rank; of a list: where it is cut
    std::string how;
    int tag = 0;  // of messages
};

std::vector<std::string> split(const std::string& text, char by) {
    auto parts = std::vector<std::string>{};
    auto in = std::istringstream(text);
    for (auto part = std::string{}; std::getline(in, part, by);) parts.push_back(part);
    return parts;
}

std::vector<Step> steps_of(const std::string& text) {
    auto steps = std::vector<Step>{};
    for (const auto& word : split(text, ',')) {
        const auto part = split(word, ':');
        steps.push_back({std::stoi(part.at(0)), part.at(1), part.at(2), std::stoul(part.at(3)), part.at(4),
                         part.at(5), std::stoi(part.at(6)), part.at(7), std::stoi(part.at(8))});
    }
    return steps;
}

/// The arguments, as `NAME=VALUE`.
struct Job {
    std::map<std::string, std::string> given;
    const std::string& text(const std::string& name) const { return given.at(name); }
    int number(const std::string& name) const { return std::stoi(text(name)); }
};

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string quoted(const std::string& text) {
    auto out = std::string("\"");
    for (const auto c : text.substr(0, 1500)) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n')
            out += "\\n";
        else if (static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7f)
            out += c;
    }
    return out + '"';
}

std::string list_of(const std::vector<int>& ranks) {
    auto out = std::string{};
    for (const auto rank : ranks) out += (out.empty() ? "" : ", ") + std::to_string(rank);
    return '[' + out + ']';
}

/// Prints an event in one write, so that lines of ranks that share an output stay whole.
void say(int rank, const std::string& event, const std::string& more = {}) {
    const auto line = "{\"rank\": " + std::to_string(rank) + ", \"event\": \"" + event +
                      "\", \"ns\": " + std::to_string(now_ns()) + more + "}\n";
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

void set_limit(int resource, rlim_t limit) {
    auto limits = rlimit{};
    getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &limits);
    limits.rlim_cur = std::min(limit, limits.rlim_max);
    setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &limits);
}

rlim_t next_descriptor() {
    const auto next = open("/dev/null", O_RDONLY);
    close(next);
    return static_cast<rlim_t>(next);
}

/// The address space that this process has, in bytes.
rlim_t memory_in_use() {
    auto pages = rlim_t{0};
    auto file = std::ifstream("/proc/self/statm");
    file >> pages;
    return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

/// What the victim does, and when; on the other ranks `kind` is empty.
class Fault {
public:
    Fault(const Job& job, int rank) : job_(job), rank_(rank) {
        if (rank != job.number("victim")) return;
        kind_ = job.text("fault");
        when_ = job.text("when");
    }

    /// Puts the fault into effect if this is its moment: before the world, before the join, before or inside
    /// a call, or at the end. A timed one happens a while later, on another thread.
    void at(const std::string& moment, int step = -1) {
        if (step >= 0) step_ = step;  // after the last one it stays
        if (kind_ == "memory" && moment == "end")
            set_limit(RLIMIT_AS, RLIM_INFINITY);  // the program has passed
        if (kind_.empty() || (step >= 0 && step != job_.number("at"))) return;
        if (when_ == moment) happen();
        const auto timed =
            (when_ == "in-join" && moment == "join") || (when_ == "during" && moment == "step");
        if (timed)
            std::thread([this] {
                std::this_thread::sleep_for(std::chrono::microseconds(job_.number("delay")));
                happen();
            }).detach();
    }
    bool returns_at(const std::string& moment) const { return kind_ == "early" && when_ == moment; }
    /// True in a child that the victim forks at this moment, which goes on where it is.
    bool is_child_at(const std::string& moment, int step) {
        if (kind_ != "child" || when_ != moment || step != job_.number("at")) return false;
        say(rank_, "fault", ", \"step\": " + std::to_string(step));
        is_child_ = fork() == 0;
        return is_child_;
    }
    bool is_child() const { return is_child_; }
    int step() const { return step_; }

private:
    void happen() {
        const auto timeout = std::chrono::milliseconds(job_.number("timeout"));
        auto child = pid_t{0};
        if (kind_ == "forked") {
            child = fork();
            if (child == 0) {
                for (const auto descriptor : {0, 1, 2}) dup2(open("/dev/null", O_RDWR), descriptor);
                sleep(60);
                _exit(0);
            }
        }
        say(rank_, "fault",
            ", \"step\": " + std::to_string(step_) + ", \"pid\": " + std::to_string(getpid()) +
                ", \"child\": " + std::to_string(child));
        if (kind_ == "kill" || kind_ == "forked") kill(getpid(), SIGKILL);
        if (kind_ == "segv") kill(getpid(), SIGSEGV);
        if (kind_ == "exit") _exit(3);
        if (kind_ == "exit0") _exit(0);
        if (kind_ == "throw") throw std::runtime_error("the fault of rank " + std::to_string(rank_));
        if (kind_ == "finalize")
            if (auto* const finalize = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPI_Finalize")))
                finalize();
        if (kind_ == "cut") raise(SIGSTOP);  // until its link has been cut
        if (kind_ == "descriptors") set_limit(RLIMIT_NOFILE, next_descriptor() + rlim_t(job_.number("room")));
        if (kind_ == "memory") set_limit(RLIMIT_AS, memory_in_use() + (rlim_t(job_.number("room")) << 20));
        if (kind_ == "disk") {
            signal(SIGXFSZ, SIG_IGN);
            set_limit(RLIMIT_FSIZE, 0);
        }
        const auto a_thread = job_.text("engine") == "threads";
        if (kind_ == "stop")
            a_thread ? std::this_thread::sleep_for(2 * timeout) : void(kill(getpid(), SIGSTOP));
        if (kind_ == "pause")
            a_thread ? std::this_thread::sleep_for(timeout / 4) : void(kill(getpid(), SIGSTOP));
        if (kind_ == "slow") std::this_thread::sleep_for(timeout / 4);
    }

    const Job& job_;
    int rank_;
    std::string kind_, when_;
    std::atomic<int> step_ = -1;
    bool is_child_ = false;
};

/// Element `i` of what world rank `rank` gives to call `id`: whole numbers so small that every sum is exact.
template <class T>
T value(int id, int rank, std::size_t i) {
    return static_cast<T>((static_cast<std::size_t>(id) * 7 + i * 3) % 50 +
                          static_cast<std::size_t>(rank) * 13 + 1);
}

/// `count` elements of a buffer from `first` on.
template <class B>
auto part(const Communicator& on, B& buffer, std::size_t first, std::size_t count) {
    return Memory(buffer.data() + first, count, on.space());
}

/// Makes the call, with `between` after its start if it is started; false if an element is wrong.
template <class T, class R>
bool perform(Communicator& on, const Step& step, R reduction, const std::function<void()>& between) {
    const auto size = static_cast<std::size_t>(on.size());
    const auto me = static_cast<std::size_t>(on.rank());
    const auto root = static_cast<std::size_t>(step.root) % size;
    const auto length = step.length;
    const auto& operation = step.operation;
    const auto given = [&](std::size_t from, std::size_t i) {
        return value<T>(step.id, on.world_rank(static_cast<int>(from)), i);
    };
    const auto reduced = [&](std::size_t i, std::size_t members) {
        auto all = given(0, i);
        for (std::size_t from = 1; from < members; ++from)
            all = R::value == Reduction::sum ? all + given(from, i) : std::max(all, given(from, i));
        return all;
    };
    const auto parts_in =
        operation == "reduce_scatter" || operation == "scatter" || operation == "all_to_all";
    const auto parts_out = operation == "all_gather" || operation == "gather" || operation == "all_to_all";
    const auto sides = operation == "halo" ? std::size_t{2} : std::size_t{1};
    // Of the operations whose parts differ: one element more for each rank.
    auto counts = std::vector<std::size_t>(size);
    std::iota(counts.begin(), counts.end(), length);
    const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{});
    const auto sent = std::vector<std::size_t>(size, counts[me]);  // to each, of all_to_all_v
    const auto untouched = T{77};
    using Limits = std::numeric_limits<T>;
    const auto least = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    auto in_count = parts_in ? size * length : sides * length;
    auto out_count = parts_out ? size * length : sides * length;
    if (operation.ends_with("_v")) {
        in_count = operation == "scatter_v"      ? total
                   : operation == "all_to_all_v" ? size * counts[me]
                                                 : counts[me];
        out_count = operation == "scatter_v" ? counts[me] : total;
    }
    auto in = std::vector<T>(in_count);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = given(me, i);
    auto out = std::vector<T>(out_count, untouched);
    if (operation == "broadcast" || operation == "list") out = in;

    const auto call = [&](auto&& blocking, auto&& starting) {
        if (step.how == "started") {
            auto pending = starting();
            between();
            if (on.space() == Space::device)
                pending.synchronize();
            else if (step.id % 2 == 0)
                pending.wait();
            else
                wait_any(std::span(&pending, 1));
        } else {
            blocking();
        }
    };
    const auto r = static_cast<int>(root);
    const auto next = static_cast<int>((me + 1) % size), before = static_cast<int>((me + size - 1) % size);
    const auto receiver = (root + 1) % size;
    const auto make = [&](const auto& in, auto& out) {
        if (operation == "all_reduce")
            call([&] { on.all_reduce(in, out, reduction); },
                 [&] { return on.start().all_reduce(in, out, reduction); });
        else if (operation == "reduce")
            call([&] { on.reduce(in, out, reduction, r); },
                 [&] { return on.start().reduce(in, out, reduction, r); });
        else if (operation == "scan")
            call([&] { on.scan(in, out, reduction); }, [&] { return on.start().scan(in, out, reduction); });
        else if (operation == "exclusive_scan")
            call([&] { on.exclusive_scan(in, out, reduction); },
                 [&] { return on.start().exclusive_scan(in, out, reduction); });
        else if (operation == "reproducible_sum") {
            if constexpr (std::is_floating_point_v<T>)
                call([&] { on.all_reduce(in, out, reproducible_sum); },
                     [&] { return on.start().all_reduce(in, out, reproducible_sum); });
            else
                call([&] { on.all_reduce(in, out); }, [&] { return on.start().all_reduce(in, out); });
        } else if (operation == "reduce_scatter")
            call([&] { on.reduce_scatter(in, out, reduction); },
                 [&] { return on.start().reduce_scatter(in, out, reduction); });
        else if (operation == "broadcast")
            call([&] { on.broadcast(out, r); }, [&] { return on.start().broadcast(out, r); });
        else if (operation == "all_gather")
            call([&] { on.all_gather(in, out); }, [&] { return on.start().all_gather(in, out); });
        else if (operation == "gather")
            call([&] { on.gather(in, out, r); }, [&] { return on.start().gather(in, out, r); });
        else if (operation == "scatter")
            call([&] { on.scatter(in, out, r); }, [&] { return on.start().scatter(in, out, r); });
        else if (operation == "all_to_all")
            call([&] { on.all_to_all(in, out); }, [&] { return on.start().all_to_all(in, out); });
        else if (operation == "all_gather_v")
            call([&] { on.all_gather_v(in, out, counts); },
                 [&] { return on.start().all_gather_v(in, out, counts); });
        else if (operation == "gather_v")
            call([&] { on.gather_v(in, out, counts, r); },
                 [&] { return on.start().gather_v(in, out, counts, r); });
        else if (operation == "scatter_v")
            call([&] { on.scatter_v(in, counts, out, r); },
                 [&] { return on.start().scatter_v(in, counts, out, r); });
        else if (operation == "all_to_all_v")
            call([&] { on.all_to_all_v(in, sent, out, counts); },
                 [&] { return on.start().all_to_all_v(in, sent, out, counts); });
        else if (operation == "shift")
            call([&] { on.shift(in, out, 1); }, [&] { return on.start().shift(in, out, 1); });
        else if (operation == "send_recv")
            call([&] { on.send_recv(in, next, out, before, step.tag); },
                 [&] { return on.start().send_recv(in, next, out, before, step.tag); });
        else if (operation == "halo") {
            // Each side of this rank to its neighbour there, with tags that no other message has.
            const auto down = 100 + 2 * step.tag, up = down + 1;
            const auto both_ways = [&] {
                on.send(part(on, in, 0, length), before, down);
                on.send(part(on, in, length, length), next, up);
                on.recv(part(on, out, 0, length), before, up);
                on.recv(part(on, out, length, length), next, down);
            };
            call([&] { on.batch(both_ways); }, [&] { return on.start().batch(both_ways); });
        } else if (operation == "list") {
            const auto cut = std::min(length, root + 1);
            const auto list = Buffers(part(on, out, 0, cut), part(on, out, cut, length - cut));
            call([&] { on.all_reduce(list, reduction); },
                 [&] { return on.start().all_reduce(list, reduction); });
        } else if (operation == "message" && me == root)
            call([&] { on.send(in, receiver, step.tag); },
                 [&] { return on.start().send(in, receiver, step.tag); });
        else if (operation == "message" && me == receiver)
            call([&] { on.recv(out, r, step.tag); }, [&] { return on.start().recv(out, r, step.tag); });
        else if (operation == "any" && me == root)
            call([&] { on.send(in, receiver, 400 + step.id); },
                 [&] { return on.start().send(in, receiver, 400 + step.id); });
        else if (operation == "any" && me == receiver)  // with a tag that no other message has
            call([&] { on.recv(out, any_rank, 400 + step.id); },
                 [&] { return on.start().recv(out, any_rank, 400 + step.id); });
        else if (operation == "sparse") {  // which has no started form, nor one for devices
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(out)>, std::vector<T>>)
                for (auto& [from, arrived] : sparse_all_to_all(on, std::vector{std::pair{next, in}}))
                    out = from == before ? std::move(arrived) : std::vector<T>();
        } else if (operation == "barrier")
            call([&] { on.barrier(); }, [&] { return on.start().barrier(); });
    };
#ifdef RANKMESH_FAULTS_ON_DEVICES
    if (on.space() == Space::device) {
        const auto device_in = support::DeviceArray<T>(in), device_out = support::DeviceArray<T>(out);
        const auto from = *device_in;
        auto to = *device_out;
        make(from, to);
        out = device_out.values();  // once the stream is done with the call
    } else
#endif
        make(in, out);

    for (std::size_t i = 0; i < out.size(); ++i) {
        auto right = untouched;
        const auto from = i / std::max<std::size_t>(length, 1), inside = i % std::max<std::size_t>(length, 1);
        if (operation == "all_reduce" || operation == "list" || (operation == "reduce" && me == root))
            right = reduced(i, size);
        if (operation == "scan") right = reduced(i, me + 1);
        if (operation == "exclusive_scan")
            right = me > 0 ? reduced(i, me) : R::value == Reduction::sum ? T{} : least;
        if (operation == "reproducible_sum") {
            right = T{};
            for (std::size_t from = 0; from < size; ++from) right += given(from, i);
        }
        if (operation == "reduce_scatter") right = reduced(me * length + i, size);
        if (operation == "broadcast") right = given(root, i);
        if (operation == "all_gather" || (operation == "gather" && me == root)) right = given(from, inside);
        if (operation == "scatter") right = given(root, me * length + i);
        if (operation == "all_to_all") right = given(from, me * length + inside);
        if (operation == "scatter_v")
            right = given(root, std::accumulate(counts.data(), counts.data() + me, std::size_t{}) + i);
        else if (operation.ends_with("_v")) {
            auto at = i;
            auto source = std::size_t{};
            while (at >= counts[source]) at -= counts[source++];
            right = given(source, operation == "all_to_all_v" ? me * counts[source] + at : at);
        }
        if (operation == "shift" || operation == "send_recv" || operation == "sparse")
            right = given((me + size - 1) % size, i);
        if (operation == "halo")
            right =
                i < length ? given((me + size - 1) % size, length + i) : given((me + 1) % size, i - length);
        if ((operation == "message" || operation == "any") && me == receiver) right = given(root, i);
        const auto ignored =
            (operation == "reduce" || operation == "gather" || operation == "gather_v") && me != root;
        if (ignored || out[i] == right) continue;
        // The error of a call on a stream is thrown by the next one.
        if (on.space() == Space::device && step.how != "started") on.start().barrier().synchronize();
        return false;
    }
    return true;
}

template <class T>
bool perform(Communicator& on, const Step& step, const std::function<void()>& between) {
    if (step.reduction == "max") return perform<T>(on, step, max, between);
    return perform<T>(on, step, sum, between);
}

bool perform(Communicator on, const Step& step, const std::function<void()>& between) {
    if (step.type == "i64") return perform<std::int64_t>(on, step, between);
    if (step.type == "f32") return perform<float>(on, step, between);
    return perform<std::int32_t>(on, step, between);
}

Declaration plan_of(const Job& job, bool differs) {
    const auto dp = job.number("dp"), tp = job.number("tp");
    auto plan = Declaration{.mesh = {{"dp", dp}, {"tp", tp}}, .over = {{"dp", "tp"}}};
    if (!differs) return plan;
    const auto how = job.text("plan");
    if (how == "order") plan.mesh = {{"tp", tp}, {"dp", dp}};
    if (how == "name") plan.name = "other";
    if (how == "axis") plan.mesh = {{"dp", dp}, {"pp", tp}}, plan.over = {{"dp", "pp"}};
    if (how == "sizes") plan.mesh = {{"dp", dp * tp}, {"tp", 1}};
    if (how == "over") plan.over = {};
    if (how == "separate") plan.over.push_back(Axes("dp").separate("own"));
    return plan;
}

/// Joins and makes all calls; what it throws is printed, and leaves.
void run_steps(World& world, const Job& job, Fault& fault) {
    const auto is_victim = world.rank() == job.number("victim");
    auto began = now_ns();
    auto phase = std::string("join");
    const auto said = [&](const char* type, const std::exception& error, const std::string& ranks) {
        say(world.rank(), "error",
            std::string(", \"type\": \"") + type + "\", \"phase\": \"" + phase +
                "\", \"step\": " + std::to_string(fault.step()) + ", \"began\": " + std::to_string(began) +
                ranks + ", \"text\": " + quoted(error.what()));
    };
    auto member = std::optional<Member>{};  // leaves after the error is printed
    try {
        fault.at("join");
        if (fault.returns_at("join")) return;
        began = now_ns();
        member = world.join({plan_of(job, is_victim && job.text("fault") == "plan")});
        phase = "step";
        const auto steps = steps_of(job.text(is_victim ? "victim-steps" : "steps"));
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const auto& step = steps[i];
            fault.at("step", static_cast<int>(i));
            if (is_victim && job.text("fault") == "slow" && i % 4 == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(job.number("timeout")) / 20);
            began = now_ns();
            const auto number = static_cast<int>(i);
            if (fault.is_child_at("step", number)) phase = "child";
            auto on = step.axes == "all" ? member->on("dp", "tp") : member->on(step.axes);
            const auto between = [&] {
                fault.at("pending", number);
                if (fault.is_child_at("pending", number)) phase = "child";
            };
            if (!perform(std::move(on), step, between))
                say(world.rank(), "wrong", ", \"step\": " + std::to_string(i));
        }
        fault.at("end");
        say(world.rank(), "ok");
    } catch (const PeerLost& error) {
        said("PeerLost", error, ", \"ranks\": " + list_of(error.ranks));
        throw;
    } catch (const Timeout& error) {
        said("Timeout", error,
             ", \"ranks\": " + list_of(error.missing) + ", \"arrived\": " + list_of(error.arrived));
        throw;
    } catch (const Disagreement& error) {
        said("Disagreement", error, ", \"ranks\": " + list_of(error.ranks));
        throw;
    } catch (const UsageError& error) {
        if (fault.is_child()) return said("UsageError", error, "");  // and ends as a program does
        said("UsageError", error, "");
        throw;
    } catch (const Error& error) {
        said("Error", error, "");
        throw;
    } catch (const std::exception& error) {
        said("other", error, "");
        throw;
    }
}

int number_in(const char* name, int otherwise) {
    const auto* text = std::getenv(name);
    return text ? std::atoi(text) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
    static auto job = Job{};  // outlives the thread of a timed fault
    for (int i = 1; i < argc; ++i) {
        const auto word = std::string(argv[i]);
        job.given[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    }
    const auto on_devices = job.text("engine") == "nccl";
    const auto options = WorldOptions{.engine = on_devices ? "gloo" : job.text("engine"),
                                      .timeout = std::chrono::milliseconds(job.number("timeout")),
                                      .checked = job.number("checked") != 0};
    const auto rank = number_in("OMPI_COMM_WORLD_RANK", number_in("RANK", -1));
    static auto fault = Fault(job, rank);
    const auto began = now_ns();
    auto made = false;
    const auto failed = [&](const char* type, const std::string& ranks, const std::exception& error) {
        if (!made && rank >= 0)
            say(rank, "error",
                std::string(", \"type\": \"") + type + "\", \"phase\": \"world\", \"step\": -1, \"began\": " +
                    std::to_string(began) + ", \"ranks\": " + ranks + ", \"text\": " + quoted(error.what()));
        return 1;
    };
    try {
        if (job.text("engine") == "threads") {
            threads::run(
                job.number("dp") * job.number("tp"),
                [&](World& world) {
                    auto own = Fault(job, world.rank());
                    run_steps(world, job, own);
                },
                options);
            return 0;
        }
        fault.at("world");
        if (fault.returns_at("world")) return 0;
        auto first = std::optional<World>{};
        if (job.text("fault") == "worlds" || job.text("fault") == "fewer")
            first = World::from_environment(argc, argv, options);
        if (job.text("fault") == "fewer" && rank == job.number("victim")) {
            std::this_thread::sleep_for(2 * options.timeout);
            return 0;
        }
        if ((job.number("delay") + rank) % 100 % 3 == 0) first.reset();  // on some ranks
        auto world = World::from_environment(argc, argv, options);
#ifdef RANKMESH_FAULTS_ON_DEVICES
        if (on_devices) {
            fault.at("device");
            if (fault.returns_at("device")) return 0;
            auto devices = nccl::World(world);
            made = true;
            run_steps(devices, job, fault);
            return 0;
        }
#endif
        if (on_devices) throw std::runtime_error("faults_rank is built without NCCL's and CUDA's headers");
        made = true;
        run_steps(world, job, fault);
        return 0;
    } catch (const PeerLost& error) {
        return failed("PeerLost", list_of(error.ranks), error);
    } catch (const Timeout& error) {
        return failed("Timeout", list_of(error.missing), error);
    } catch (const Disagreement& error) {
        return failed("Disagreement", list_of(error.ranks), error);
    } catch (const Error& error) {
        return failed("Error", "[]", error);
    } catch (const std::exception& error) {
        return failed("other", "[]", error);
    }
}
