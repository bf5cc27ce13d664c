// SPDX-License-Identifier: Apache-2.0
// Every operation on buffers of one length, for comparing an engine of devices with that of hosts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <rankmesh/engine/communicator.hpp>

namespace device_operations {

using rankmesh::Communicator;
using rankmesh::ConstBuffers;
using rankmesh::Edge;
using rankmesh::Memory;
using rankmesh::prod;

/// What one operation is given, wherever that lies.
struct Buffers {
    Memory<float> in;
    Memory<float> out;
};
/// An operation on two buffers of a length that every size of group divides, the second of which it may
/// change.
struct Operation {
    std::string name;
    std::function<void(Communicator&, Buffers)> run;
};

constexpr auto length = std::size_t{24};

/// The first `size` elements.
inline Memory<float> first(Memory<float> memory, std::size_t size) {
    return {memory.data(), size, memory.space()};
}
inline Memory<float> part(Memory<float> memory, std::size_t begin, std::size_t size) {
    return {memory.data() + begin, size, memory.space()};
}

/// Counts whose sum is `length`, where element i of rank r's is what rank i has of r.
inline std::vector<std::size_t> counts_of(int size, int rank) {
    auto counts =
        std::vector<std::size_t>(static_cast<std::size_t>(size), length / static_cast<std::size_t>(size));
    // Even ones keep one less for themselves and send it to the next, which sends it back.
    if (size > 1) {
        const auto r = static_cast<std::size_t>(rank);
        --counts[r];
        ++counts[r ^ 1];
    }
    return counts;
}

inline std::vector<Operation> operations() {
    return {
        {"all_reduce", [](auto& on, auto b) { on.all_reduce(b.in, b.out); }},
        {"all_reduce in place", [](auto& on, auto b) { on.all_reduce(b.out, rankmesh::mean); }},
        {"start_all_reduce", [](auto& on, auto b) { on.start().all_reduce(b.in, b.out, prod).wait(); }},
        {"reduce", [](auto& on, auto b) { on.reduce(b.in, b.out, rankmesh::max, on.size() - 1); }},
        {"scan", [](auto& on, auto b) { on.scan(b.in, b.out); }},
        {"reduce_scatter",
         [](auto& on, auto b) {
             on.reduce_scatter(b.in, first(b.out, length / static_cast<std::size_t>(on.size())));
         }},
        {"broadcast", [](auto& on, auto b) { on.broadcast(b.out, on.size() - 1); }},
        {"all_gather",
         [](auto& on, auto b) {
             on.all_gather(first(b.in, length / static_cast<std::size_t>(on.size())), b.out);
         }},
        {"all_gather in place", [](auto& on, auto b) { on.all_gather(b.out); }},
        {"all_gather_v",
         [](auto& on, auto b) {
             const auto counts = counts_of(on.size(), 0);
             on.all_gather_v(first(b.in, counts[static_cast<std::size_t>(on.rank())]), b.out, counts);
         }},
        {"gather",
         [](auto& on, auto b) {
             on.gather(first(b.in, length / static_cast<std::size_t>(on.size())), b.out, on.size() - 1);
         }},
        {"scatter",
         [](auto& on, auto b) {
             on.scatter(b.in, first(b.out, length / static_cast<std::size_t>(on.size())), on.size() - 1);
         }},
        {"all_to_all", [](auto& on, auto b) { on.all_to_all(b.in, b.out); }},
        {"all_to_all in place", [](auto& on, auto b) { on.all_to_all(b.out); }},
        {"all_to_all_v",
         [](auto& on, auto b) {
             const auto counts = counts_of(on.size(), on.rank());
             on.all_to_all_v(b.in, counts, b.out, counts);
         }},
        {"start_all_to_all_v, whose counts go at once",
         [](auto& on, auto b) {
             const auto start = [&] {
                 const auto counts = counts_of(on.size(), on.rank());
                 return on.start().all_to_all_v(b.in, counts, b.out, counts);
             };
             start().wait();
         }},
        {"shift", [](auto& on, auto b) { on.shift(b.in, b.out); }},
        {"shift with open edges", [](auto& on, auto b) { on.shift(b.in, b.out, -1, Edge::open); }},
        {"shift in place", [](auto& on, auto b) { on.shift(b.out, 3); }},
        {"send_recv",
         [](auto& on, auto b) {
             on.send_recv(b.in, (on.rank() + 1) % on.size(), b.out, (on.rank() + on.size() - 1) % on.size());
         }},
        {"send and recv",
         [](auto& on, auto b) {
             if (on.size() == 1) return;
             if (on.rank() == 0) on.send(Memory<const float>(b.in.data(), length, b.in.space()), 1);
             if (on.rank() == 1) on.recv(b.out, 0);
         }},
        {"batch",
         [](auto& on, auto b) {
             const auto next = (on.rank() + 1) % on.size();
             const auto before = (on.rank() + on.size() - 1) % on.size();
             on.batch([&] {
                 on.send(first(b.in, 7), next);
                 on.recv(first(b.out, 7), before);
                 on.recv(part(b.out, 7, 5), next);
                 on.send(part(b.in, 7, 5), before);
             });
         }},
        {"batch with tags",
         [](auto& on, auto b) {
             const auto next = (on.rank() + 1) % on.size();
             const auto before = (on.rank() + on.size() - 1) % on.size();
             on.batch([&] {
                 on.send(first(b.in, 7), next, 2);
                 on.send(part(b.in, 7, 5), before, 1);
                 on.recv(part(b.out, 7, 5), next, 1);
                 on.recv(first(b.out, 7), before, 2);
             });
         }},
        {"a list reduced",
         [](auto& on, auto b) {
             auto list = rankmesh::Buffers{};
             list.add(first(b.out, 5));
             list.add(part(b.out, 5, 0));
             list.add(part(b.out, 7, 11));
             on.all_reduce(list);
         }},
        {"a list gathered",
         [](auto& on, auto b) {
             const auto n = static_cast<std::size_t>(on.size());
             auto ins = ConstBuffers{};
             auto outs = rankmesh::Buffers{};
             for (std::size_t i = 0; i < 3; ++i) {
                 ins.add(part(b.in, i, 2));
                 outs.add(part(b.out, 2 * i * n, 2 * n));
             }
             on.start().all_gather(ins, outs).wait();
         }},
        {"barrier", [](auto& on, auto) { on.barrier(); }},
    };
}

inline std::vector<float> numbers(int rank, int from) {
    auto numbers = std::vector<float>(length);
    for (std::size_t i = 0; i < length; ++i)
        numbers[i] = static_cast<float>((rank * 7 + static_cast<int>(i) * 3) % 11 + from);
    return numbers;
}

}  // namespace device_operations
