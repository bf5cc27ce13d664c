// SPDX-License-Identifier: Apache-2.0
// The operations of a communicator, one row each. Checks, records, texts and engines read their facts here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rankmesh::detail {

enum class Operation : std::uint8_t {
    all_reduce,
    reduce,
    scan,
    reduce_scatter,
    broadcast,
    all_gather,
    all_gather_v,
    gather,
    scatter,
    all_to_all,
    all_to_all_v,
    shift,
    barrier,
    monitored_barrier,
    send,
    recv,
    send_recv,
    gather_v,
    scatter_v,
    probe,
    exclusive_scan
};

/// The ranks that use a buffer: `others` are all but the root.
enum class Users : std::uint8_t { none, root, others, all };
/// What the `argument` of a call is.
enum class Argument : std::uint8_t { none, root, peer, distance };
/// How an operation may read and write one buffer: `same` elements, or the shorter buffer is this rank's
/// `own_part` of the longer one.
enum class InPlace : std::uint8_t { no, same, own_part };

/// Eight bytes, so that a call finds a fact with one load.
struct Traits {
    Users reads = Users::all;   ///< the ranks that read `in`
    Users writes = Users::all;  ///< the ranks that write `out`
    bool in_parts = false;      ///< `in` holds a part for each rank of the group
    bool out_parts = false;     ///< `out` holds a part for each rank of the group
    bool counts = false;        ///< counts give the lengths of the parts; else all parts have one length
    InPlace in_place = InPlace::no;
    Argument argument = Argument::none;
    bool reduces = false;

    constexpr bool has_in() const { return reads != Users::none; }
    constexpr bool has_out() const { return writes != Users::none; }
    constexpr bool is_rooted() const { return argument == Argument::root; }
};

struct OperationRow {
    std::string_view name;
    Traits traits = {};
    std::string_view preposition = {};  ///< stands before the argument in texts: `from 2`
};

/// By Operation.
inline constexpr auto operations = std::to_array<OperationRow>({
    {"all_reduce", {.in_place = InPlace::same, .reduces = true}},
    {"reduce",
     {.writes = Users::root, .in_place = InPlace::same, .argument = Argument::root, .reduces = true},
     "to"},
    {"scan", {.in_place = InPlace::same, .reduces = true}},
    {"reduce_scatter", {.in_parts = true, .in_place = InPlace::own_part, .reduces = true}},
    {"broadcast",
     {.reads = Users::root, .writes = Users::others, .in_place = InPlace::same, .argument = Argument::root},
     "from"},
    {"all_gather", {.out_parts = true, .in_place = InPlace::own_part}},
    {"all_gather_v", {.out_parts = true, .counts = true}},
    {"gather", {.writes = Users::root, .out_parts = true, .argument = Argument::root}, "to"},
    {"scatter", {.reads = Users::root, .in_parts = true, .argument = Argument::root}, "from"},
    {"all_to_all", {.in_parts = true, .out_parts = true, .in_place = InPlace::same}},
    {"all_to_all_v", {.in_parts = true, .out_parts = true, .counts = true}},
    {"shift", {.in_place = InPlace::same, .argument = Argument::distance}, "by"},
    {"barrier", {.reads = Users::none, .writes = Users::none}},
    {"monitored_barrier", {.reads = Users::none, .writes = Users::none}},
    {"send", {.writes = Users::none, .argument = Argument::peer}, "to"},
    {"recv", {.reads = Users::none, .argument = Argument::peer}, "from"},
    {"send_recv", {.argument = Argument::peer}, "to"},
    {"gather_v",
     {.writes = Users::root, .out_parts = true, .counts = true, .argument = Argument::root},
     "to"},
    {"scatter_v",
     {.reads = Users::root, .in_parts = true, .counts = true, .argument = Argument::root},
     "from"},
    {"probe", {.reads = Users::none, .writes = Users::none, .argument = Argument::peer}, "from"},
    {"exclusive_scan", {.in_place = InPlace::same, .reduces = true}},
});

/// The traits alone, close together.
inline constexpr auto operation_traits = [] {
    auto all = std::array<Traits, operations.size()>{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = operations[i].traits;
    return all;
}();

constexpr const Traits& traits(Operation operation) {
    return operation_traits[static_cast<std::size_t>(operation)];
}
constexpr std::string_view to_string(Operation operation) {
    return operations[static_cast<std::size_t>(operation)].name;
}
/// The word before the argument in texts.
constexpr std::string_view preposition(Operation operation) {
    return operations[static_cast<std::size_t>(operation)].preposition;
}
constexpr bool reduces(Operation operation) { return traits(operation).reduces; }
/// True for operations between two ranks, which the others of the group do not call.
constexpr bool is_point_to_point(Operation operation) { return traits(operation).argument == Argument::peer; }

}  // namespace rankmesh::detail
