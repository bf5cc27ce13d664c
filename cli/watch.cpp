// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include <rankmesh/explain/read.hpp>
#include <rankmesh/explain/slow.hpp>
#include <rankmesh/explain/watch.hpp>

#include "formats/json.hpp"
#include "output.hpp"
#include "subcommand.hpp"

namespace rankmesh::cli {

namespace of_watch {

struct Arguments {
    std::string folder;
    std::size_t records = 3;
    std::optional<std::string> textfile;
    bool json = false;
};

/// How often the ranks write.
std::chrono::seconds pause_of(const RecordFolder& folder, const std::string& name) {
    if (folder.records.empty()) return std::chrono::seconds(1);
    const auto every = std::ranges::max_element(folder.records, {}, &FlightRecord::every_s)->every_s;
    if (every <= 0)
        throw UsageError(
            detail::cat("the records in ", detail::in_quotes(name),
                        " are not written while the job runs; start it with RANKMESH_RECORD_EVERY=10s"));
    return std::chrono::seconds(every);
}

/// Returns the metrics of the axes in OpenMetrics, which node_exporter's textfile collector reads.
std::string metrics_of(const std::vector<FlightRecord>& records, const Watch& watch) {
    struct Axis {
        double calls = 0;
        double waits = 0;
        double skew = 0;
        double stopped = 0;
    };
    auto axes = std::map<std::string, Axis>{};
    for (const auto& record : records)
        for (const auto& status : record.statuses)
            if (status.group) axes[status.group->axes].calls += static_cast<double>(status.enqueued);
    for (const auto& row : explain_slow(records).last) {
        auto& axis = axes[row.axes];
        axis.waits += row.waited;
        axis.skew = std::max(axis.skew, row.late);
    }
    for (const auto& event : watch.stopped()) ++axes[event.finding.axes].stopped;
    auto text = std::string{};
    const auto add = [&](const char* name, const char* type, auto member, const char* help) {
        text += fmt::format("# TYPE rankmesh_{0} {1}\n# HELP rankmesh_{0} {2}\n", name, type, help);
        const auto* suffix = std::string_view(type) == "counter" ? "_total" : "";
        for (const auto& [axis, values] : axes)
            text += fmt::format("rankmesh_{}{}{{axes=\"{}\"}} {}\n", name, suffix, axis, values.*member);
    };
    add("calls", "counter", &Axis::calls, "Collectives that ranks have called, of all ranks.");
    add("wait_seconds", "gauge", &Axis::waits,
        "Time that ranks waited for the last one, in the calls of the records.");
    add("skew_seconds", "gauge", &Axis::skew, "Time by which the last rank of a group usually comes late.");
    add("stopped", "gauge", &Axis::stopped, "Calls that are stopped.");
    return text + "# EOF\n";
}

int run(const Arguments& arguments, Output& output) {
    auto watch = Watch(static_cast<int>(arguments.records));
    auto has_begun = false;
    auto has_stopped = false;
    auto last_ns = std::int64_t{0};
    while (!watch.has_ended()) {
        const auto begin = std::chrono::steady_clock::now();
        const auto folder = read_last_calls(arguments.folder);
        const auto pause = pause_of(folder, arguments.folder);
        if (!has_begun && !folder.records.empty() && !arguments.json)
            output.print("watching {}, each {} s\n",
                         detail::counted(
                             static_cast<std::size_t>(folder.records.front().world_size.value_or(1)), "rank"),
                         pause.count());
        has_begun |= !folder.records.empty();
        for (const auto& record : folder.records) last_ns = std::max(last_ns, record.written_ns.value_or(0));
        if (has_begun)
            for (const auto& event : watch.look(folder.records, folder.unread))
                output.print("{}\n", arguments.json ? json_of(event) : to_string(event));
        has_stopped = !watch.stopped().empty() || watch.has_failed();
        if (arguments.textfile) write_file(*arguments.textfile, metrics_of(folder.records, watch));
        output.flush();
        std::this_thread::sleep_until(begin + pause);
    }
    using namespace std::chrono;
    const auto age = duration_cast<seconds>(system_clock::now().time_since_epoch() - nanoseconds(last_ns));
    if (arguments.json)
        output.print("{}\n", formats::Json{{"event", "ended"}, {"since_ns", last_ns}}.dump());
    else
        output.print("ended: no rank writes records any more; the last is of {} s ago{}\n",
                     std::max(age, seconds(0)).count(),
                     has_stopped ? "; to see the cause, run rankmesh explain " + arguments.folder : "");
    return has_stopped ? 1 : 0;
}

}  // namespace of_watch

Subcommand watch() {
    const auto arguments = std::make_shared<of_watch::Arguments>();
    return {.name = "watch",
            .help = "Say when ranks of a running job stop, and when they go on.",
            .options = {{"FOLDER", "folder of RANKMESH_RECORD, in which RANKMESH_RECORD_EVERY writes",
                         &arguments->folder},
                        {"--records",
                         "a call is stopped if a rank in it writes N records without progress of its group; "
                         "3 by default",
                         &arguments->records, "N", Option::Range{1, 1000}},
                        {"--textfile", "write metrics by axis, for node_exporter's textfile collector",
                         &arguments->textfile, "FILE"},
                        {"--json", "print an object a line; docs/json.md describes it", &arguments->json}},
            .run = [arguments](Output& output) { return of_watch::run(*arguments, output); },
            .group = Group::run,
            .examples = {"rankmesh watch /tmp/records"},
            .notes =
                "Ends when no rank writes records any more, or by Ctrl-C.\n"
                "Exit status 0: the job ended while its ranks went on. 1: it ended while a call was stopped, "
                "or after an error. 2: the folder has no records of a running job. 130: Ctrl-C."};
}

}  // namespace rankmesh::cli
