// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/command.hpp"
#include "support/processes.hpp"

namespace support {

/// Two hosts on this machine: networks and host names of their own, and a link between them. They have no
/// names here, and go with this process however it ends.
class TwoHosts {
public:
    /// The addresses of both ends of the link, with their lengths: `10.77.0.1/24`.
    TwoHosts(const std::vector<std::string>& addresses_a, const std::vector<std::string>& addresses_b,
             const std::array<std::string, 2>& names = {"alpha", "beta"}) {
        for (const auto& name : names) hosts_.push_back(make(name));
        must("nsenter -t " + std::to_string(hosts_[0]) +
             " -n ip link add mesh0 type veth peer name mesh1 netns " + std::to_string(hosts_[1]));
        for (std::size_t host = 0; host < 2; ++host) {
            must(on(host) + "ip link set lo up");
            must(on(host) + "sysctl -qw net.ipv6.conf.mesh" + std::to_string(host) +
                 ".keep_addr_on_down=1 || true");
            must(on(host) + "ip link set mesh" + std::to_string(host) + " up");
            for (const auto& address : host == 0 ? addresses_a : addresses_b)
                must(on(host) + "ip address add " + address + " dev mesh" + std::to_string(host) +
                     (address.find(':') == std::string::npos ? "" : " nodad"));
        }
    }
    TwoHosts(const TwoHosts&) = delete;
    TwoHosts& operator=(const TwoHosts&) = delete;
    ~TwoHosts() {
        for (auto host : hosts_) {
            kill(host, SIGKILL);
            end_of(host);
        }
    }

    /// Why this machine cannot have them, "" if it can.
    static std::string why_not() {
        if (run("command -v ip && command -v nsenter").exit_code != 0)
            return "no ip and nsenter here (packages iproute2, util-linux)";
        const auto child = fork();
        if (child == 0) _exit(unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 ? 0 : errno);
        const auto error = end_of(child);
        if (error != 0) return std::string("network namespaces cannot be made here: ") + std::strerror(error);
        try {
            TwoHosts({"10.77.0.1/24", "fd77::1/64"}, {"10.77.0.2/24", "fd77::2/64"});
        } catch (const std::exception& trouble) {
            return std::string("network namespaces cannot be linked here: ") + trouble.what();
        }
        return {};
    }

    /// The words before a command that runs on a host.
    std::string on(std::size_t host) const {
        return "nsenter -t " + std::to_string(hosts_.at(host)) + " -n -u ";
    }
    void cut() const { must(on(0) + "ip link set mesh0 down"); }
    /// Lets the link carry so many megabits a second in each direction; false if this machine cannot.
    bool throttle(int megabits) const {
        for (std::size_t host = 0; host < 2; ++host)
            if (run(on(host) + "tc qdisc add dev mesh" + std::to_string(host) + " root tbf rate " +
                    std::to_string(megabits) + "mbit burst 16kb latency 50ms")
                    .exit_code != 0)
                return false;
        return true;
    }
    void restore() const { must(on(0) + "ip link set mesh0 up"); }

private:
    static void must(const std::string& command) {
        const auto outcome = run(command);
        if (outcome.exit_code != 0) throw std::runtime_error(command + ": " + outcome.output);
    }
    /// A process that does nothing but be in namespaces of its own.
    static pid_t make(const std::string& name) {
        auto ready = std::array<int, 2>{};
        if (pipe2(ready.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
        const auto process = fork();
        if (process == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const auto made = unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 &&
                              sethostname(name.c_str(), name.size()) == 0 && write(ready[1], "", 1) == 1;
            close(ready[0]);
            close(ready[1]);
            while (made) pause();
            _exit(1);
        }
        close(ready[1]);
        auto nothing = char{};
        const auto count = read(ready[0], &nothing, 1);
        close(ready[0]);
        if (count != 1) throw std::runtime_error("a network namespace cannot be made");
        return process;
    }

    std::vector<pid_t> hosts_;
};

}  // namespace support
