// SPDX-License-Identifier: Apache-2.0
// The flight records of a program of blocking calls on a mesh, as ranks write them when nothing goes on.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/ranks.hpp>
#include <rankmesh/explain/read.hpp>

namespace rankmesh::tests {

/// One call of a rank: a collective along `axes`, or a message to or from a group rank.
struct Step {
    std::vector<std::string> axes;
    std::string operation = "all_reduce";
    int count = 4;
    std::string dtype = "f32";
    std::string reduction = "sum";
    int argument = -1;  ///< root or peer; -1: none
    int tag = 0;

    bool is_message() const { return operation == "send" || operation == "recv"; }
    friend bool operator==(const Step&, const Step&) = default;
};

class RecordedJob {
public:
    explicit RecordedJob(const Mesh& mesh) : mesh_(mesh), programs_(static_cast<std::size_t>(mesh.size())) {}

    std::vector<Step>& operator[](int rank) { return programs_[static_cast<std::size_t>(rank)]; }
    int size() const { return mesh_.size(); }
    const Mesh& mesh() const { return mesh_; }

    void all(const Step& step) {
        for (auto& program : programs_) program.push_back(step);
    }

    /// Runs until no rank can go on; calls of one number that differ do not end.
    void run() {
        made_.assign(programs_.size(), {});
        done_.assign(programs_.size(), 0);
        for (auto goes_on = true; goes_on;) {
            goes_on = false;
            for (int rank = 0; rank < size(); ++rank) {
                auto& made = made_[at(rank)];
                if (done_[at(rank)] == made.size() && made.size() < programs_[at(rank)].size()) {
                    made.push_back(call(rank, programs_[at(rank)][made.size()]));
                    goes_on = true;
                }
                if (done_[at(rank)] < made.size() && is_over(rank, made.back())) {
                    ++done_[at(rank)];
                    goes_on = true;
                }
            }
        }
    }

    bool is_stuck(int rank) const { return done_[at(rank)] < made_[at(rank)].size(); }

    /// The record of a rank, as it writes it after `run`.
    std::string record(int rank) const {
        const auto list = [](const auto& numbers) {
            auto text = std::string("[");
            for (const auto number : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(number);
            return text + "]";
        };
        auto config = std::map<std::string, std::string>{};
        auto last = std::map<std::string, std::pair<int, int>>{};
        auto entries = std::string{};
        for (std::size_t i = 0; i < made_[at(rank)].size(); ++i) {
            const auto& [step, number] = made_[at(rank)][i];
            const auto is_over = i < done_[at(rank)];
            const auto group = mesh_.group(rank, axes_of(step));
            const auto key = to_string(group);
            auto axes = std::string{};
            for (const auto& axis : step.axes) axes += (axes.empty() ? "" : ",") + axis;
            const auto label = "'" + axes + "' of mesh " + to_string(mesh_);
            config[key] = "{\"name\": \"" + key + "\", \"desc\": \"" + label + "\", \"ranks\": \"" +
                          list(group) + "\", \"axes\": \"" + axes + "\", \"mesh\": \"\"}";
            auto& [enqueued, completed] = last[key];
            if (!step.is_message()) enqueued = number;
            if (!step.is_message() && is_over) completed = number;
            const auto sizes = "[[" + std::to_string(step.count) + "]]";
            const auto time =
                std::to_string(1'760'000'000'000'000'000 + 1'000'000 * static_cast<long>(i) + rank);
            entries +=
                std::string(i == 0 ? "" : ",\n  ") + "{\"record_id\": " + std::to_string(i) +
                ", \"process_group\": [\"" + key + "\", \"" + label +
                "\"], \"pg_id\": 1, \"collective_seq_id\": " +
                std::to_string(step.is_message() ? 0 : number) +
                ", \"p2p_seq_id\": " + std::to_string(step.is_message() ? number : 0) +
                ", \"is_p2p\": " + (step.is_message() ? "true" : "false") +
                ", \"profiling_name\": \"gloo:" + step.operation + "\", \"operation\": \"" + step.operation +
                "\", " + (step.reduction.empty() ? "" : "\"reduction\": \"" + step.reduction + "\", ") +
                (step.argument < 0 ? "" : "\"argument\": " + std::to_string(step.argument) + ", ") +
                (step.is_message() ? "\"tag\": " + std::to_string(step.tag) + ", " : "") +
                "\"input_sizes\": " + (step.operation == "recv" ? "[]" : sizes) + ", \"input_dtypes\": [\"" +
                step.dtype + "\"], \"output_sizes\": " + (step.operation == "send" ? "[]" : sizes) +
                ", \"output_dtypes\": [\"" + step.dtype +
                "\"], \"blocking\": true, \"time_created_ns\": " + time +
                ", \"time_discovered_completed_ns\": " + (is_over ? time : "null") + ", \"state\": \"" +
                (is_over ? "completed" : "started") + "\", \"retired\": " + (is_over ? "true" : "false") +
                "}";
        }
        const auto object = [](const std::map<std::string, std::string>& values) {
            auto text = std::string("{");
            for (const auto& [key, value] : values)
                text += (text.size() > 1 ? ", " : "") + ("\"" + key + "\": ") + value;
            return text + "}";
        };
        auto status = std::map<std::string, std::string>{};
        for (const auto& [key, numbers] : last)
            status[key] = "{\"last_enqueued_collective\": " + std::to_string(numbers.first) +
                          ", \"last_completed_collective\": " + std::to_string(numbers.second) + "}";
        return "{\"version\": \"2.10\", \"rankmesh\": 1, \"rank\": " + std::to_string(rank) +
               ", \"world_size\": " + std::to_string(size()) +
               ", \"engine\": \"gloo\", \"host\": \"a\", \"pid\": 1" + ", \"reason\": \"" +
               (is_stuck(rank) ? "timeout" : "signal") + "\",\n \"meshes\": [{\"name\": \"\", \"mesh\": \"" +
               to_string(mesh_) + "\"}],\n \"pg_config\": " + object(config) +
               ",\n \"pg_status\": " + object(status) + ",\n \"entries\": [\n  " + entries + "]}\n";
    }

    /// Writes the records of all ranks but `without`.
    void write(const std::filesystem::path& folder, const std::vector<int>& without = {}) const {
        std::filesystem::create_directories(folder);
        for (int rank = 0; rank < size(); ++rank)
            if (std::ranges::find(without, rank) == without.end())
                std::ofstream(folder / ("rank-" + std::to_string(rank) + ".json")) << record(rank);
    }

private:
    struct Made {
        Step step;
        int number;
    };

    static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
    AxisSet axes_of(const Step& step) const {
        auto set = AxisSet{};
        for (const auto& axis : step.axes) set.insert(mesh_.axis(axis));
        return set;
    }

    Made call(int rank, const Step& step) const {
        auto number = 1;
        for (const auto& made : made_[at(rank)])
            number += made.step.axes == step.axes && made.step.is_message() == step.is_message() ? 1 : 0;
        return {step, number};
    }

    const Made* find(int rank, const Made& like) const {
        for (const auto& made : made_[at(rank)])
            if (made.step.axes == like.step.axes && made.number == like.number && !made.step.is_message())
                return &made;
        return nullptr;
    }
    /// How many messages a rank has made to or from a peer, and with the step in its list.
    int messages(int rank, const Step& step, const std::string& operation, int peer) const {
        auto count = 0;
        for (const auto& made : made_[at(rank)])
            count +=
                made.step.axes == step.axes && made.step.operation == operation && made.step.argument == peer
                    ? 1
                    : 0;
        return count;
    }

    bool is_over(int rank, const Made& made) const {
        const auto group = mesh_.group(rank, axes_of(made.step));
        if (made.step.is_message() && made.step.argument < 0)
            return false;  // from any rank, and nobody sends
        if (made.step.is_message()) {
            const auto peer = group[made.step.argument];
            const auto me = *group.group_rank(rank);
            return messages(peer, made.step, made.step.operation == "send" ? "recv" : "send", me) >=
                   messages(rank, made.step, made.step.operation, made.step.argument);
        }
        for (const auto other : group) {
            const auto* theirs = find(other, made);
            if (!theirs || !(theirs->step == made.step)) return false;
        }
        return true;
    }

    Mesh mesh_;
    std::vector<std::vector<Step>> programs_;
    std::vector<std::vector<Made>> made_;
    std::vector<std::size_t> done_;
};

inline std::vector<FlightRecord> records_of(const RecordedJob& job, const std::vector<int>& without = {}) {
    auto reader = RecordReader();
    auto records = std::vector<FlightRecord>{};
    for (int rank = 0; rank < job.size(); ++rank)
        if (std::ranges::find(without, rank) == without.end())
            records.push_back(reader.read(job.record(rank), "rank-" + std::to_string(rank) + ".json"));
    return records;
}

}  // namespace rankmesh::tests
