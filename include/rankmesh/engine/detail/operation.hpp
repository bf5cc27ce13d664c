// SPDX-License-Identifier: Apache-2.0
// The operations of a communicator, one row each. Checks, records, texts and engines read their facts here.
#pragma once

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
    send_recv
};

/// The ranks that use a buffer: `others` are all but the root.
enum class Users : std::uint8_t { none, root, others, all };
/// What the `argument` of a call is.
enum class Argument : std::uint8_t { none, root, peer, distance };
/// How an operation may read and write one buffer: `same` elements, or the shorter buffer is this rank's
/// `own_part` of the longer one.
enum class InPlace : std::uint8_t { no, same, own_part };

struct Traits {
    std::string_view name;
    Users reads = Users::all;   ///< the ranks that read `in`
    Users writes = Users::all;  ///< the ranks that write `out`
    bool in_parts = false;      ///< `in` holds a part for each rank of the group
    bool out_parts = false;     ///< `out` holds a part for each rank of the group
    bool counts = false;        ///< counts give the lengths of the parts; else all parts are as long
    InPlace in_place = InPlace::no;
    Argument argument = Argument::none;
    std::string_view preposition = {};  ///< stands before the argument in texts: `from 2`
    bool reduces = false;

    constexpr bool has_in() const { return reads != Users::none; }
    constexpr bool has_out() const { return writes != Users::none; }
    constexpr bool is_rooted() const { return argument == Argument::root; }
};

/// By Operation.
inline constexpr Traits operations[] = {
    {.name = "all_reduce", .in_place = InPlace::same, .reduces = true},
    {.name = "reduce",
     .writes = Users::root,
     .in_place = InPlace::same,
     .argument = Argument::root,
     .preposition = "to",
     .reduces = true},
    {.name = "scan", .in_place = InPlace::same, .reduces = true},
    {.name = "reduce_scatter", .in_parts = true, .in_place = InPlace::own_part, .reduces = true},
    {.name = "broadcast",
     .reads = Users::root,
     .writes = Users::others,
     .in_place = InPlace::same,
     .argument = Argument::root,
     .preposition = "from"},
    {.name = "all_gather", .out_parts = true, .in_place = InPlace::own_part},
    {.name = "all_gather_v", .out_parts = true, .counts = true},
    {.name = "gather",
     .writes = Users::root,
     .out_parts = true,
     .argument = Argument::root,
     .preposition = "to"},
    {.name = "scatter",
     .reads = Users::root,
     .in_parts = true,
     .argument = Argument::root,
     .preposition = "from"},
    {.name = "all_to_all", .in_parts = true, .out_parts = true, .in_place = InPlace::same},
    {.name = "all_to_all_v", .in_parts = true, .out_parts = true, .counts = true},
    {.name = "shift", .in_place = InPlace::same, .argument = Argument::distance, .preposition = "by"},
    {.name = "barrier", .reads = Users::none, .writes = Users::none},
    {.name = "monitored_barrier", .reads = Users::none, .writes = Users::none},
    {.name = "send", .writes = Users::none, .argument = Argument::peer, .preposition = "to"},
    {.name = "recv", .reads = Users::none, .argument = Argument::peer, .preposition = "from"},
    {.name = "send_recv", .argument = Argument::peer, .preposition = "to"},
};

constexpr const Traits& traits(Operation operation) {
    return operations[static_cast<std::size_t>(operation)];
}
constexpr std::string_view to_string(Operation operation) { return traits(operation).name; }
constexpr bool reduces(Operation operation) { return traits(operation).reduces; }
/// True for operations between two ranks, which the others of the group do not call.
constexpr bool is_point_to_point(Operation operation) { return traits(operation).argument == Argument::peer; }

}  // namespace rankmesh::detail
