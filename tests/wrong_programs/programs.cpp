// SPDX-License-Identifier: Apache-2.0
#include "programs.hpp"

#include <cstddef>
#include <stdexcept>
#include <thread>

namespace wrong_programs {
namespace {

using rankmesh::Axes;
using rankmesh::Communicator;
using rankmesh::Declaration;
using rankmesh::Edge;
using rankmesh::Mesh;
using Floats = std::vector<float>;
using Counts = std::vector<std::size_t>;

/// Thrown by a body to return early.
struct Returns {};

/// Stays outside any call until the others have given up.
void idle() { std::this_thread::sleep_for(5 * timeout / 2); }

void all_reduce(Communicator on, std::size_t count = 4) {
    auto x = Floats(count);
    on.all_reduce(x);
}
void all_gather(Communicator on, std::size_t count = 4) {
    const auto x = Floats(count);
    auto all = Floats(count * static_cast<std::size_t>(on.size()));
    on.all_gather(x, all);
}
void scan(Communicator on) {
    auto x = Floats(4);
    on.scan(x);
}
void broadcast(Communicator on, int root) {
    auto x = Floats(4);
    on.broadcast(x, root);
}
void send(Communicator on, int to, std::size_t count = 4) {
    const auto x = Floats(count);
    on.send(x, to);
}
void recv(Communicator on, int from, std::size_t count = 4) {
    auto x = Floats(count);
    on.recv(x, from);
}

/// Reduces along tp, the pair of ranks 0 and 1 before the other, in which `odd` gathers instead.
void in_pairs(Rank& me, int odd) {
    if (me.id > 1) recv(me.on("dp"), 0);
    me.id == odd ? all_gather(me.on("tp")) : all_reduce(me.on("tp"));
    if (me.id < 2) send(me.on("dp"), 1);
}

const auto dp4 = Mesh{{"dp", 4}};
const auto dp8 = Mesh{{"dp", 8}};
const auto pp4 = Mesh{{"pp", 4}};
const auto ep4 = Mesh{{"ep", 4}};
const auto by_2_2 = Mesh{{"dp", 2}, {"tp", 2}};
const auto by_2_3 = Mesh{{"dp", 2}, {"tp", 3}};
const auto by_3_2 = Mesh{{"dp", 3}, {"tp", 2}};
const auto by_2_4 = Mesh{{"dp", 2}, {"tp", 4}};
const auto stages = Mesh{{"pp", 2}, {"dp", 2}};
const auto by_2_2_2 = Mesh{{"pp", 2}, {"dp", 2}, {"tp", 2}};

std::vector<std::string> names_of(const Mesh& mesh) {
    auto names = std::vector<std::string>{};
    for (int a = 0; a < mesh.axis_count(); ++a) names.emplace_back(mesh.name(rankmesh::AxisId{a}));
    return names;
}
/// Communicators along each axis, and over all of them.
Declaration on(const Mesh& mesh) { return {.mesh = mesh, .over = {Axes(names_of(mesh))}}; }

void add_calls_that_differ(std::vector<Program>& all) {
    const auto add = [&](std::string name, std::string what, const Mesh& mesh, std::vector<int> ranks,
                         std::string on, std::string says, std::function<void(Rank&)> body,
                         By by = By::both) {
        all.push_back({std::move(name),
                       std::move(what),
                       mesh,
                       std::move(ranks),
                       std::move(on),
                       Cause::calls_differ,
                       by,
                       {std::move(says)},
                       std::move(body)});
    };
    add("operation", "one rank gathers what the others reduce", by_2_2, {3}, "'tp'", "all_gather of 4 f32",
        [](Rank& me) { in_pairs(me, 3); });
    add(
        "operation_in_a_pair", "the first of a pair gathers what all others reduce", by_2_2, {2}, "'tp'",
        "all_gather of 4 f32", [](Rank& me) { in_pairs(me, 2); }, By::explain);
    add("barrier_for_all_reduce", "one rank calls a barrier where the others reduce", dp4, {1}, "'dp'",
        "barrier", [](Rank& me) { me.id == 1 ? me.on("dp").barrier() : all_reduce(me.on("dp")); });
    add("gather_for_all_gather", "one rank gathers to 0 what the others gather to all", dp4, {3}, "'dp'",
        "gather of 4 f32 to 0", [](Rank& me) {
            auto on = me.on("dp");
            const auto x = Floats(4);
            auto all = Floats(16);
            me.id == 3 ? on.gather(x, all) : on.all_gather(x, all);
        });
    add("reduce_for_all_reduce", "one rank thinks that only the first needs the sum", dp8, {4}, "'dp'",
        "reduce of 4 f32 by sum to 0", [](Rank& me) {
            auto x = Floats(4);
            me.id == 4 ? me.on("dp").reduce(x) : me.on("dp").all_reduce(x);
        });
    add("type", "one rank reduces doubles", dp4, {2}, "'dp'", "all_reduce of 4 f64 by sum", [](Rank& me) {
        auto x = Floats(4);
        auto y = std::vector<double>(4);
        me.id == 2 ? me.on("dp").all_reduce(y) : me.on("dp").all_reduce(x);
    });
    add("count", "one rank has an element more", by_2_4, {5}, "'tp'", "all_reduce of 5 f32 by sum",
        [](Rank& me) { all_reduce(me.on("tp"), me.id == 5 ? 5 : 4); });
    add("count_on_two", "two of eight ranks have another batch", dp8, {2, 5}, "'dp'",
        "all_reduce of 3 f32 by sum",
        [](Rank& me) { all_reduce(me.on("dp"), me.id == 2 || me.id == 5 ? 3 : 4); });
    add("count_of_all_gather", "one rank gives more than its share", by_2_3, {1}, "'tp'",
        "all_gather of 5 f32", [](Rank& me) { all_gather(me.on("tp"), me.id == 1 ? 5 : 4); });
    add("count_of_reduce_scatter", "one rank has half of the gradients", dp4, {2}, "'dp'",
        "reduce_scatter of 8 f32 by sum", [](Rank& me) {
            const auto count = me.id == 2 ? std::size_t{8} : std::size_t{16};
            const auto x = Floats(count);
            auto part = Floats(count / 4);
            me.on("dp").reduce_scatter(x, part);
        });
    add("count_of_all_to_all", "one rank sends two tokens to each expert, the others one", ep4, {0}, "'ep'",
        "all_to_all of 8 f32", [](Rank& me) {
            auto x = Floats(me.id == 0 ? 8 : 4);
            me.on("ep").all_to_all(x);
        });
    add("reduction", "one rank takes the greatest", dp4, {1}, "'dp'", "all_reduce of 4 f32 by max",
        [](Rank& me) {
            auto x = Floats(4);
            me.id == 1 ? me.on("dp").all_reduce(x, rankmesh::max) : me.on("dp").all_reduce(x);
        });
    add("mean_for_sum", "one rank means", dp4, {0}, "'dp'", "all_reduce of 4 f32 by mean", [](Rank& me) {
        auto x = Floats(4);
        me.id == 0 ? me.on("dp").all_reduce(x, rankmesh::mean) : me.on("dp").all_reduce(x);
    });
    add("reduction_of_scan", "one rank scans by the greatest", dp8, {6}, "'dp'", "scan of 4 f32 by max",
        [](Rank& me) {
            auto x = Floats(4);
            me.id == 6 ? me.on("dp").scan(x, rankmesh::max) : me.on("dp").scan(x);
        });
    add("root_of_broadcast", "one rank takes itself for the root", by_2_3, {4}, "'tp'",
        "broadcast of 4 f32 from 1", [](Rank& me) { broadcast(me.on("tp"), me.id == 4 ? 1 : 0); });
    add(
        "every_rank_its_own_root", "the root is this rank on every rank", dp4, {0, 1, 2, 3}, "'dp'",
        "broadcast of 4 f32 from 3", [](Rank& me) { broadcast(me.on("dp"), me.on("dp").rank()); },
        By::explain);
    add("root_of_reduce", "one rank reduces to the last", dp4, {3}, "'dp'", "reduce of 4 f32 by sum to 3",
        [](Rank& me) {
            auto x = Floats(4);
            me.on("dp").reduce(x, me.id == 3 ? 3 : 0);
        });
    add("root_of_gather", "one rank gathers to itself", dp8, {7}, "'dp'", "gather of 4 f32 to 7",
        [](Rank& me) {
            const auto x = Floats(4);
            auto all = Floats(32);
            me.on("dp").gather(x, all, me.id == 7 ? 7 : 0);
        });
    add("root_of_scatter", "one rank expects its part from itself", by_2_3, {2}, "'tp'",
        "scatter of 4 f32 from 2", [](Rank& me) {
            const auto x = Floats(12);
            auto part = Floats(4);
            me.on("tp").scatter(x, part, me.id == 2 ? 2 : 0);
        });
    add("direction_of_shift", "one rank shifts the other way", pp4, {2}, "'pp'", "shift of 4 f32 by -1",
        [](Rank& me) {
            auto x = Floats(4);
            me.on("pp").shift(x, me.id == 2 ? -1 : 1);
        });
    add("edge_of_shift", "one rank shifts with open edges", pp4, {3}, "'pp'",
        "shift of 4 f32 by 1 with open edges", [](Rank& me) {
            auto x = Floats(4);
            me.on("pp").shift(x, 1, me.id == 3 ? Edge::open : Edge::wrap);
        });
}

void add_counts_and_plans_that_differ(std::vector<Program>& all) {
    all.push_back({"counts_of_all_to_all_v",
                   "rank 1 sends three tokens to rank 2, which expects two",
                   ep4,
                   {1, 2},
                   "'ep'",
                   Cause::calls_differ,
                   By::both,
                   {"rank 1", "3", "rank 2", "expects 2"},
                   [](Rank& me) {
                       auto in_counts = Counts(4, 2);
                       const auto out_counts = Counts(4, 2);
                       if (me.id == 1) in_counts[2] = 3;
                       const auto in = Floats(me.id == 1 ? 9 : 8);
                       auto out = Floats(8);
                       me.on("ep").all_to_all_v(in, in_counts, out, out_counts);
                   }});
    all.push_back({"counts_of_all_gather_v",
                   "rank 3 thinks that rank 0 gives one element more",
                   dp4,
                   {0, 3},
                   "'dp'",
                   Cause::calls_differ,
                   By::both,
                   {"rank 0", "2", "rank 3", "expects 3"},
                   [](Rank& me) {
                       auto counts = Counts(4, 2);
                       if (me.id == 3) counts[0] = 3;
                       const auto in = Floats(2);
                       auto out = Floats(me.id == 3 ? 9 : 8);
                       me.on("dp").all_gather_v(in, out, counts);
                   }});
    all.push_back({"plan_in_another_order",
                   "rank 2 declares the axes in another order",
                   by_2_2,
                   {2},
                   "",
                   Cause::plans_differ,
                   By::checked,
                   {"tp=2 dp=2"},
                   [](Rank&) {},
                   [](int rank, Declaration& plan) {
                       if (rank == 2) plan.mesh = {{"tp", 2}, {"dp", 2}};
                   }});
    all.push_back({"plan_of_other_sizes",
                   "rank 5 was configured for 4 by 2",
                   by_2_4,
                   {5},
                   "",
                   Cause::plans_differ,
                   By::checked,
                   {"dp=4 tp=2"},
                   [](Rank&) {},
                   [](int rank, Declaration& plan) {
                       if (rank == 5) plan.mesh = {{"dp", 4}, {"tp", 2}};
                   }});
    all.push_back({"plan_without_a_communicator",
                   "rank 0 does not declare the one of all ranks",
                   by_2_2,
                   {0},
                   "",
                   Cause::plans_differ,
                   By::checked,
                   {"dp=2 tp=2"},
                   [](Rank&) {},
                   [](int rank, Declaration& plan) {
                       if (rank == 0) plan.over.clear();
                   }});
}

void add_wrong_sequences(std::vector<Program>& all) {
    all.push_back({"left_out",
                   "rank 6 leaves out the second of three calls",
                   by_2_4,
                   {6},
                   "'tp'",
                   Cause::calls_differ,
                   By::both,
                   {"scan of 4 f32 by sum", "all_gather of 4 f32"},
                   [](Rank& me) {
                       all_reduce(me.on("tp"));
                       if (me.id != 6) all_gather(me.on("tp"));
                       scan(me.on("tp"));
                   }});
    all.push_back({"two_left_out",
                   "rank 0 skips a layer of two calls",
                   dp8,
                   {0},
                   "'dp'",
                   Cause::calls_differ,
                   By::both,
                   {"scan of 4 f32 by sum", "all_reduce of 4 f32 by sum"},
                   [](Rank& me) {
                       if (me.id != 0) all_reduce(me.on("dp")), all_gather(me.on("dp"));
                       scan(me.on("dp"));
                       broadcast(me.on("dp"), 0);
                   }});
    all.push_back({"made_twice",
                   "rank 1 makes a call twice",
                   dp4,
                   {1},
                   "'dp'",
                   Cause::calls_differ,
                   By::both,
                   {"all_reduce of 4 f32 by sum", "all_gather of 4 f32"},
                   [](Rank& me) {
                       all_reduce(me.on("dp"));
                       if (me.id == 1) all_reduce(me.on("dp"));
                       all_gather(me.on("dp"));
                       scan(me.on("dp"));
                   }});
    all.push_back({"swapped",
                   "rank 2 makes two calls in the other order",
                   dp4,
                   {2},
                   "'dp'",
                   Cause::calls_differ,
                   By::both,
                   {"scan of 4 f32 by sum"},
                   [](Rank& me) {
                       if (me.id == 2) scan(me.on("dp"));
                       all_reduce(me.on("dp"));
                       if (me.id != 2) scan(me.on("dp"));
                   }});
    all.push_back({"last_call_missing",
                   "rank 1 does not make the last call",
                   by_2_2,
                   {1},
                   "'dp'",
                   Cause::does_not_come,
                   By::both,
                   {"outside any call"},
                   [](Rank& me) {
                       all_reduce(me.on("tp"));
                       if (me.id == 1) return idle();
                       all_reduce(me.on("dp"));
                   }});
    all.push_back({"one_iteration_less",
                   "rank 3 has one batch less",
                   dp4,
                   {3},
                   "'dp'",
                   Cause::does_not_come,
                   By::both,
                   {"outside any call"},
                   [](Rank& me) {
                       for (int i = 0; i < (me.id == 3 ? 2 : 3); ++i) all_reduce(me.on("dp"));
                       if (me.id == 3) idle();
                   }});
    all.push_back({"another_group",
                   "rank 5 reduces over all where the others reduce along tp",
                   by_2_4,
                   {5},
                   "'dp,tp'",
                   Cause::calls_differ,
                   By::explain,
                   {"all_reduce of 4 f32 by sum", "barrier"},
                   [](Rank& me) { all_reduce(me.id == 5 ? me.on("dp", "tp") : me.on("tp")); }});
    all.push_back({"misses_the_barrier",
                   "rank 5 writes a checkpoint while all others are in a barrier",
                   by_2_3,
                   {5},
                   "'dp,tp'",
                   Cause::does_not_come,
                   By::both,
                   {"outside any call"},
                   [](Rank& me) { me.id == 5 ? idle() : me.on("dp", "tp").barrier(); }});
    all.push_back({"two_do_not_come",
                   "two of eight ranks compute for too long",
                   dp8,
                   {3, 6},
                   "'dp'",
                   Cause::does_not_come,
                   By::both,
                   {"outside any call"},
                   [](Rank& me) { me.id == 3 || me.id == 6 ? idle() : all_reduce(me.on("dp")); }});
    all.push_back({"one_call_too_many",
                   "rank 2 makes one call more than all others",
                   dp4,
                   {2},
                   "'dp'",
                   Cause::one_call_extra,
                   By::explain,
                   {"a call too many"},
                   [](Rank& me) { me.id == 2 ? all_reduce(me.on("dp")) : idle(); }});
    all.push_back({"one_group_too_many",
                   "one pair's first rank makes a call that no other pair makes",
                   by_3_2,
                   {4},
                   "'tp'",
                   Cause::orders_cross,
                   By::explain,
                   {"wait for one another", "barrier"},
                   [](Rank& me) {
                       if (me.id == 4) all_reduce(me.on("tp"));
                   }});
    all.push_back({"on_the_first_rank_only",
                   "only rank 0 calls the barrier before it writes",
                   by_2_2,
                   {0},
                   "'dp,tp'",
                   Cause::orders_cross,
                   By::explain,
                   {"wait for one another", "barrier"},
                   [](Rank& me) {
                       if (me.id == 0) me.on("dp", "tp").barrier();
                       all_reduce(me.on("tp"));
                   }});
}

void add_crossed_orders(std::vector<Program>& all) {
    const auto add = [&](std::string name, std::string what, const Mesh& mesh, std::vector<int> ranks,
                         std::string on, std::string says, std::function<void(Rank&)> body) {
        all.push_back({std::move(name),
                       std::move(what),
                       mesh,
                       std::move(ranks),
                       std::move(on),
                       Cause::orders_cross,
                       By::explain,
                       {"wait for one another", std::move(says)},
                       std::move(body)});
    };
    add("crossed", "rank 1 reduces over all before it reduces along tp", by_2_2, {1}, "'tp'", "'dp,tp'",
        [](Rank& me) {
            if (me.id == 1) all_reduce(me.on("dp", "tp"));
            all_reduce(me.on("tp"));
            if (me.id != 1) all_reduce(me.on("dp", "tp"));
        });
    add("crossed_by_two", "the ranks off the diagonal reduce along dp first", by_2_2, {0, 1, 2, 3}, "'tp'",
        "'dp'", [](Rank& me) {
            const auto is_off = me.id == 1 || me.id == 2;
            all_reduce(me.on(is_off ? "dp" : "tp"));
            all_reduce(me.on(is_off ? "tp" : "dp"));
        });
    add("crossed_three", "each rank begins with another of three axes", by_2_2_2, {0, 1, 3, 4, 6, 7}, "'tp'",
        "'pp'", [](Rank& me) {
            const auto first = me.id == 1 || me.id == 6 ? 1 : me.id == 3 || me.id == 4 ? 2 : 0;
            constexpr const char* axes[] = {"tp", "dp", "pp"};
            for (int i = 0; i < 3; ++i) all_reduce(me.on(axes[(first + i) % 3]));
        });
    add("crossed_channels", "rank 2 uses the channel of the gradients before that of the weights", dp4, {2},
        "'dp'", "'grads'", [](Rank& me) {
            if (me.id == 2) all_reduce(me.on("grads"));
            all_gather(me.on("dp"));
            if (me.id != 2) all_reduce(me.on("grads"));
        });
    add("message_before_the_barrier", "rank 1 receives before the barrier that all others call first", pp4,
        {1}, "'pp'", "recv of 4 f32 from 0", [](Rank& me) {
            if (me.id == 1) recv(me.on("pp"), 0);
            me.on("pp").barrier();
            if (me.id == 0) send(me.on("pp"), 1);
        });
    add("another_axis", "rank 3 reduces along dp where all others reduce along tp", by_2_2, {3}, "'dp'",
        "'tp'", [](Rank& me) {
            all_reduce(me.on(me.id == 3 ? "dp" : "tp"));
            all_reduce(me.on("dp"));
        });
    add("receives_a_broadcast", "rank 1 receives what the others broadcast", dp4, {1}, "'dp'",
        "broadcast of 4 f32 from 0",
        [](Rank& me) { me.id == 1 ? recv(me.on("dp"), 0) : broadcast(me.on("dp"), 0); });
    add("all_receive_first", "every rank of a ring receives before it sends", pp4, {0, 1, 2, 3}, "'pp'",
        "recv of 4 f32 from 3", [](Rank& me) {
            recv(me.on("pp"), (me.id + 3) % 4);
            send(me.on("pp"), (me.id + 1) % 4);
        });
    add("a_pair_receives_first", "two ranks receive from each other before they send", stages, {0, 2}, "'pp'",
        "recv of 4 f32 from 1", [](Rank& me) {
            auto on = me.on("pp");
            const auto other = 1 - on.rank();
            const auto x = Floats(4);
            auto y = Floats(4);
            if (me.id % 2 == 1) return on.send_recv(x, other, y, other);
            recv(me.on("pp"), other);
            send(me.on("pp"), other);
        });
    add("a_pair_sends_first", "two ranks send to each other before they receive", pp4, {0, 1}, "'pp'",
        "send of 4 f32 to 1", [](Rank& me) {
            if (me.id > 1) return;
            send(me.on("pp"), 1 - me.id);
            recv(me.on("pp"), 1 - me.id);
        });
    add("ring_the_other_way", "rank 2 sends round the ring the other way", Mesh{{"cp", 4}}, {2}, "'cp'",
        "send_recv of 4 f32 to 1 and from 3", [](Rank& me) {
            const auto x = Floats(4);
            auto y = Floats(4);
            const auto by = me.id == 2 ? 3 : 1;
            me.on("cp").send_recv(x, (me.id + by) % 4, y, (me.id + 4 - by) % 4);
        });
    add("one_message_less", "rank 2 receives two of three micro-batches", stages, {2}, "'pp'",
        "send of 4 f32 to 1", [](Rank& me) {
            for (int i = 0; i < 3; ++i)
                if (me.id < 2)
                    send(me.on("pp"), 1);
                else if (me.id == 3 || i < 2)
                    recv(me.on("pp"), 0);
        });
    add("batch_without_a_receive", "rank 1 leaves its receive out of the batch", pp4, {1}, "'pp'",
        "send of 4 f32 to 1", [](Rank& me) {
            const auto x = Floats(4);
            auto y = Floats(4);
            auto on = me.on("pp");
            on.batch([&] {
                on.send(x, (me.id + 1) % 4);
                if (me.id != 1) on.recv(y, (me.id + 3) % 4);
            });
        });
}

void add_messages(std::vector<Program>& all) {
    const auto add = [&](std::string name, std::string what, std::vector<int> ranks, Cause cause, By by,
                         std::vector<std::string> says, std::function<void(Rank&)> body) {
        all.push_back({std::move(name), std::move(what), pp4, std::move(ranks), "'pp'", cause, by,
                       std::move(says), std::move(body)});
    };
    add("nobody_receives", "rank 2 does not receive", {2}, Cause::does_not_come, By::both,
        {"outside any call", "send of 4 f32 to 2"}, [](Rank& me) {
            if (me.id == 1) send(me.on("pp"), 2);
            if (me.id == 2) idle();
        });
    add("nobody_sends", "rank 1 does not send", {1}, Cause::does_not_come, By::both,
        {"outside any call", "recv of 4 f32 from 1"}, [](Rank& me) {
            if (me.id == 1) idle();
            if (me.id == 2) recv(me.on("pp"), 1);
        });
    add("gradients_not_sent", "the last stage does not send its gradients back", {3}, Cause::does_not_come,
        By::explain, {"outside any call", "recv of 4 f32 from 3"}, [](Rank& me) {
            if (me.id > 0) recv(me.on("pp"), me.id - 1);
            if (me.id < 3) send(me.on("pp"), me.id + 1);
            if (me.id == 3) return idle();
            recv(me.on("pp"), me.id + 1);
            if (me.id > 0) send(me.on("pp"), me.id - 1);
        });
    add("to_another_peer", "rank 0 sends to rank 2 what rank 1 expects", {0, 1}, Cause::peers_differ,
        By::explain, {"send of 4 f32 to 2", "recv of 4 f32 from 0"}, [](Rank& me) {
            if (me.id == 0) send(me.on("pp"), 2);
            if (me.id == 1) recv(me.on("pp"), 0);
        });
    add("message_length", "rank 1 expects another length", {0, 1}, Cause::calls_differ, By::both,
        {"4 f32", "8 f32"}, [](Rank& me) {
            if (me.id == 0) send(me.on("pp"), 1);
            if (me.id == 1) recv(me.on("pp"), 0, 8);
        });
    add("message_type", "rank 1 expects another type", {0, 1}, Cause::calls_differ, By::both,
        {"4 f32", "4 i32"}, [](Rank& me) {
            auto x = std::vector<int>(4);
            if (me.id == 0) send(me.on("pp"), 1);
            if (me.id == 1) me.on("pp").recv(x, 0);
        });
    add("messages_in_another_order", "rank 3 receives two messages in another order than rank 2 sends them",
        {2, 3}, Cause::calls_differ, By::both, {"4 f32", "8 f32"}, [](Rank& me) {
            if (me.id == 2) send(me.on("pp"), 3, 4), send(me.on("pp"), 3, 8);
            if (me.id == 3) recv(me.on("pp"), 2, 8), recv(me.on("pp"), 2, 4);
        });
    add("length_in_a_ring", "rank 1 passes on more than rank 2 expects", {1, 2}, Cause::calls_differ,
        By::both, {"6 f32", "4 f32"}, [](Rank& me) {
            const auto x = Floats(me.id == 1 ? 6 : 4);
            auto y = Floats(4);
            me.on("pp").send_recv(x, (me.id + 1) % 4, y, (me.id + 3) % 4);
        });
}

void add_ranks_that_go(std::vector<Program>& all) {
    const auto add = [&](std::string name, std::string what, const Mesh& mesh, std::vector<int> ranks,
                         std::string on, std::function<void(Rank&)> body) {
        all.push_back({std::move(name),
                       std::move(what),
                       mesh,
                       std::move(ranks),
                       std::move(on),
                       Cause::is_gone,
                       By::both,
                       {},
                       std::move(body)});
    };
    add("returns_early", "rank 1 has nothing to do and returns", dp4, {1}, "'dp'", [](Rank& me) {
        if (me.id == 1) throw Returns{};
        all_reduce(me.on("dp"));
    });
    add("returns_in_the_loop", "rank 7 breaks out of its loop", by_2_2_2, {7}, "", [](Rank& me) {
        for (int i = 0; i < 3; ++i) {
            if (me.id == 7 && i == 2) throw Returns{};
            all_reduce(me.on("tp"));
        }
    });
    add("throws", "rank 2 runs out of memory", by_2_2, {2}, "", [](Rank& me) {
        if (me.id == 2) throw std::runtime_error("out of memory");
        all_reduce(me.on("tp"));
    });
    add("throws_before_it_waits", "rank 3 throws while a call of it is pending", dp4, {3}, "'dp'",
        [](Rank& me) {
            auto x = Floats(4);
            auto pending = me.on("dp").start().all_reduce(x);
            if (me.id == 3) throw std::runtime_error("no such file");
            all_gather(me.on("dp"));
            pending.wait();
        });
}

void add_misuse(std::vector<Program>& all) {
    const auto add = [&](std::string name, std::string what, const Mesh& mesh, int rank, std::string on,
                         std::vector<std::string> says, std::function<void(Rank&)> body) {
        all.push_back({std::move(name),
                       std::move(what),
                       mesh,
                       {rank},
                       std::move(on),
                       Cause::misuse,
                       By::checked,
                       std::move(says),
                       std::move(body)});
    };
    add("reused_buffer", "rank 2 broadcasts a buffer that is being reduced", dp4, 2, "'dp'",
        {"broadcast of 4 f32 from 0", "all_reduce of 4 f32 by sum"}, [](Rank& me) {
            auto x = Floats(4);
            auto y = Floats(4);
            auto pending = me.on("dp").start().all_reduce(x);
            me.on("dp").broadcast(me.id == 2 ? x : y);
            pending.wait();
        });
    add("started_twice", "rank 0 starts two calls on one buffer", by_2_2, 0, "'dp'",
        {"all_reduce of 4 f32 by sum", "'tp'"}, [](Rank& me) {
            auto x = Floats(4);
            auto y = Floats(4);
            auto first = me.on("tp").start().all_reduce(x);
            auto second = me.on("dp").start().all_reduce(me.id == 0 ? x : y);
            first.wait();
            second.wait();
        });
    add("sends_what_is_gathered", "rank 1 sends a part of what is still being gathered", by_2_2, 1, "'dp'",
        {"send of 2 f32 to 1", "all_gather of 4 f32"}, [](Rank& me) {
            const auto x = Floats(4);
            auto all = Floats(8);
            const auto other = Floats(2);
            auto got = Floats(2);
            auto pending = me.on("tp").start().all_gather(x, all);
            if (me.id < 2)
                me.on("dp").send(me.id == 1 ? std::span<const float>(all).subspan(2, 2) : other, 1);
            if (me.id >= 2) me.on("dp").recv(got, 0);
            pending.wait();
        });
    add("receives_into_what_is_sent", "rank 3 receives into what it is still sending", pp4, 3, "'pp'",
        {"recv of 4 f32 from 2", "send of 4 f32 to 2"}, [](Rank& me) {
            auto x = Floats(4);
            auto y = Floats(4);
            if (me.id < 2) return;
            const auto other = 5 - me.id;
            auto pending = me.on("pp").start().send(x, other);
            me.on("pp").recv(me.id == 3 ? x : y, other);
            pending.wait();
        });
    add("root_is_a_world_rank", "rank 3 passes its number in the world for the root", by_2_2, 3, "'tp'",
        {"3"}, [](Rank& me) { broadcast(me.on("tp"), me.id == 3 ? 3 : 0); });
    add("output_too_short", "rank 0 has room for three of four parts", dp4, 0, "'dp'", {"12", "16"},
        [](Rank& me) {
            const auto x = Floats(4);
            auto all = Floats(me.id == 0 ? 12 : 16);
            me.on("dp").all_gather(x, all);
        });
    add("sends_to_itself", "rank 2 takes its own number for the next one's", pp4, 2, "'pp'", {"2"},
        [](Rank& me) {
            if (me.id == 2) send(me.on("pp"), 2);
            if (me.id == 3) recv(me.on("pp"), 2);
        });
    add("counts_of_other_ranks", "rank 1 passes counts for three ranks", ep4, 1, "'ep'", {"3 counts"},
        [](Rank& me) {
            const auto counts = Counts(me.id == 1 ? 3 : 4, 2);
            const auto in = Floats(2 * counts.size());
            auto out = Floats(2 * counts.size());
            me.on("ep").all_to_all_v(in, counts, out, counts);
        });
}

}  // namespace

const std::vector<Program>& programs() {
    static const auto programs = [] {
        auto all = std::vector<Program>{};
        add_calls_that_differ(all);
        add_counts_and_plans_that_differ(all);
        add_wrong_sequences(all);
        add_crossed_orders(all);
        add_messages(all);
        add_ranks_that_go(all);
        add_misuse(all);
        return all;
    }();
    return programs;
}

void run_rank(const Program& program, rankmesh::World& world) {
    auto plan = on(program.mesh);
    plan.over.push_back(Axes(names_of(program.mesh).front()).separate("grads"));
    if (program.change_plan) program.change_plan(world.rank(), plan);
    auto member = world.join({plan});
    const auto names = names_of(program.mesh);
    for (const auto& name : names) all_reduce(member.on(name));
    auto me = Rank{world, member, world.rank()};
    try {
        program.body(me);
    } catch (const Returns&) {
        return;
    }
    const auto all = std::vector<std::string_view>(names.begin(), names.end());
    member.on(all).within(10 * timeout).barrier();
}

}  // namespace wrong_programs
