// SPDX-License-Identifier: Apache-2.0
#include "children.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "formats/text.hpp"
#include "output.hpp"

namespace rankmesh::cli {

namespace of_children {

using Clock = std::chrono::steady_clock;

/// The kinds of messages that a child sends, one per line.
constexpr auto at = 'a', returned = 'r', failed = 'f';

struct Descriptor {
    int value = -1;
    explicit Descriptor(int given) : value(given) {}
    Descriptor(Descriptor&& other) noexcept : value(std::exchange(other.value, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor() { close(); }
    void close() {
        if (value >= 0) ::close(value);
        value = -1;
    }
};

struct Pipe {
    Descriptor out, in;
    static Pipe make() {
        auto ends = std::array<int, 2>{};
        if (pipe2(ends.data(), O_CLOEXEC) != 0)
            throw std::system_error(errno, std::generic_category(),
                                    "cannot create a pipe for a child process");
        return {Descriptor(ends[0]), Descriptor(ends[1])};
    }
};

struct Child {
    int number;
    pid_t process;
    Descriptor out;  // the child's messages
    Descriptor log;  // output of the child and its libraries
    std::string messages = {};
    std::string printed = {};
    int status = 0;
};

void write_line(int to, char kind, std::string text) {
    std::ranges::replace(text, '\n', '\v');
    if (write_all(to, kind + text + '\n') != 0) _exit(3);
}

[[noreturn]] void be_child(int number, int out, int log,
                           const std::function<std::string(int, const Say&)>& program) {
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    try {
        const auto result = program(number, [&](const std::string& what) { write_line(out, at, what); });
        write_line(out, returned, result);
    } catch (const std::exception& error) {
        write_line(out, failed, error.what());
    }
    std::fflush(nullptr);
    _exit(0);
}

/// Reads available data. Returns false at the end.
bool read_from(const Descriptor& from, std::string& to) {
    auto piece = std::array<char, 4096>{};
    const auto got = ::read(from.value, piece.data(), piece.size());
    if (got > 0) to.append(piece.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
}

/// Returns the last message of a kind, or of any kind.
std::string last_of(const Child& child, char kind) {
    auto found = std::string{};
    for (const auto line : formats::split(child.messages, '\n'))
        if (line.starts_with(kind)) found = line.substr(1);
    std::ranges::replace(found, '\v', '\n');
    return found;
}
bool has(const Child& child, char kind) {
    return child.messages.starts_with(kind) ||
           child.messages.find(std::string("\n") + kind) != std::string::npos;
}

/// Waits until all children have closed their pipes, or until `end`. Returns true if all have.
bool collect(std::vector<Child>& children, Clock::time_point end) {
    while (true) {
        auto polled = std::vector<pollfd>{};
        auto texts = std::vector<std::pair<Descriptor*, std::string*>>{};
        for (auto& child : children)
            for (auto [from, to] :
                 {std::pair(&child.out, &child.messages), std::pair(&child.log, &child.printed)})
                if (from->value >= 0) {
                    polled.push_back({from->value, POLLIN, 0});
                    texts.emplace_back(from, to);
                }
        if (polled.empty()) return true;
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        if (left <= 0) return false;
        if (poll(polled.data(), polled.size(), static_cast<int>(std::min<long long>(left, 1000))) < 0 &&
            errno != EINTR)
            throw std::system_error(errno, std::generic_category(), "cannot wait for the child processes");
        for (std::size_t i = 0; i < polled.size(); ++i)
            if (polled[i].revents != 0 && !read_from(*texts[i].first, *texts[i].second))
                texts[i].first->close();
    }
}

/// Returns what is wrong with a child; "": nothing.
std::string fault_of(const Child& child, bool in_time, std::chrono::milliseconds limit) {
    const auto where = last_of(child, at);
    const auto place = where.empty() ? "" : fmt::format(" in '{}'", where);
    if (has(child, failed))
        return last_of(child, failed) + (where.empty() ? "" : fmt::format(" (in '{}')", where));
    if (has(child, returned)) return {};
    if (!in_time && WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGKILL)
        return fmt::format("process {} has not returned after {:g} s{}", child.number,
                           static_cast<double>(limit.count()) / 1e3, place);
    if (WIFSIGNALED(child.status))
        return fmt::format("process {} was ended by signal {} ({}){}", child.number, WTERMSIG(child.status),
                           strsignal(WTERMSIG(child.status)), place);
    return fmt::format("process {} exited with {}{}", child.number, WEXITSTATUS(child.status), place);
}

/// Returns the last lines of a text.
std::string tail(const std::string& text, int lines) {
    auto from = text.size();
    if (from > 0 && text[from - 1] == '\n') --from;
    for (; from > 0 && lines > 0; --from)
        if (text[from - 1] == '\n' && --lines == 0) break;
    return text.substr(from);
}

}  // namespace of_children

Trial run_in_children(int count, std::chrono::milliseconds limit,
                      const std::function<std::string(int, const Say&)>& program, int leaves) {
    using namespace of_children;
    const auto begin = Clock::now();
    auto children = std::vector<Child>{};
    for (int number = 0; number < count; ++number) {
        auto messages = Pipe::make();
        auto log = Pipe::make();
        const auto process = fork();
        if (process < 0) {
            const auto why = errno;
            for (const auto& child : children) kill(child.process, SIGKILL);
            for (const auto& child : children) waitpid(child.process, nullptr, 0);
            throw std::system_error(why, std::generic_category(), "cannot start a child process");
        }
        if (process == 0) be_child(number, messages.in.value, log.in.value, program);
        children.push_back({number, process, std::move(messages.out), std::move(log.out)});
    }
    const auto in_time = collect(children, begin + limit);
    if (!in_time)
        for (const auto& child : children) kill(child.process, SIGKILL);
    for (auto& child : children)
        while (waitpid(child.process, &child.status, 0) < 0 && errno == EINTR) {
        }
    if (!in_time) collect(children, Clock::now() + std::chrono::seconds(1));

    auto trial = Trial{.ok = true, .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
    trial.text = last_of(children.front(), returned);
    auto is_cause = false;  // other children fail because this child has crashed
    for (const auto& child : children) {
        const auto fault = fault_of(child, in_time, limit);
        trial.log += tail(child.printed, 12);
        const auto left = child.number == leaves && WIFEXITED(child.status) && !has(child, failed);
        if (fault.empty() || left) continue;
        const auto crashed = !has(child, failed) && (in_time || WTERMSIG(child.status) != SIGKILL);
        if (trial.ok || (crashed && !is_cause)) trial.text = fault;
        is_cause = is_cause || crashed;
        trial.ok = false;
    }
    return trial;
}

}  // namespace rankmesh::cli
