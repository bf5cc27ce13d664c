/* SPDX-License-Identifier: Apache-2.0 */
/* Every function for C, used as a program in C uses it: program RANKS runs so many as threads, program
   without an argument is one rank of the world that it was started in, with "grows" one that lets another in,
   with "comes" that one. Each rank checks what it gets by counting. */
#include <rankmesh/rankmesh.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16 /* ranks */
#define LENGTH 3

#define CHECK(call)                                                                   \
    do {                                                                              \
        const int code = (call);                                                      \
        if (code != 0) {                                                              \
            fprintf(stderr, "%s:%d: %s is %d: %s\n", __FILE__, __LINE__, #call, code, \
                    rankmesh_error_text());                                           \
            return code;                                                              \
        }                                                                             \
    } while (0)
#define EXPECT(condition)                                                                 \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            return 100;                                                                   \
        }                                                                                 \
    } while (0)

/* Element i of what a rank gives. */
static int32_t mark(int rank, size_t i) { return 100 * rank + (int32_t)i; }

static void give(int32_t* buffer, int rank, size_t count) {
    for (size_t i = 0; i < count; ++i) buffer[i] = mark(rank, i);
}

/* Blocking calls leave the pending NULL, and there is nothing to wait for. */
static int finish(rankmesh_pending* pending) {
    int done = 0;
    if (pending == NULL) return 0;
    CHECK(rankmesh_pending_wait(pending));
    CHECK(rankmesh_pending_wait(pending));
    CHECK(rankmesh_pending_synchronize(pending));
    CHECK(rankmesh_pending_done(pending, &done));
    EXPECT(done);
    rankmesh_pending_free(pending);
    return 0;
}

struct group {
    rankmesh_communicator* on;
    int rank;
    int size;
    int root;
    int started; /* whether the calls are started, or block */
};

#define RUN(call)                                                      \
    do {                                                               \
        rankmesh_pending* pending = NULL;                              \
        rankmesh_pending** started = group->started ? &pending : NULL; \
        CHECK(call);                                                   \
        EXPECT((pending != NULL) == group->started);                   \
        CHECK(finish(pending));                                        \
    } while (0)

static int check_reductions(const struct group* group) {
    int32_t in[MOST * LENGTH], out[MOST * LENGTH];
    const int n = group->size, r = group->rank;
    double mean = r;

    give(in, r, LENGTH);
    RUN(rankmesh_all_reduce(group->on, in, out, LENGTH, RANKMESH_I32, RANKMESH_SUM, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == 50 * n * (n - 1) + n * (int)i);
    RUN(rankmesh_all_reduce(group->on, in, in, LENGTH, RANKMESH_I32, RANKMESH_MAX, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(in[i] == mark(n - 1, i));
    RUN(rankmesh_all_reduce(group->on, &mean, &mean, 1, RANKMESH_F64, RANKMESH_MEAN, started));
    EXPECT(mean == (n - 1) / 2.0);

    give(in, r, LENGTH);
    give(out, -1, LENGTH);
    RUN(rankmesh_reduce(group->on, in, r == group->root ? out : NULL, LENGTH, RANKMESH_I32, RANKMESH_MIN,
                        group->root, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == mark(r == group->root ? 0 : -1, i));

    RUN(rankmesh_scan(group->on, in, out, LENGTH, RANKMESH_I32, RANKMESH_SUM, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == 50 * r * (r + 1) + (r + 1) * (int)i);

    RUN(rankmesh_exclusive_scan(group->on, in, out, LENGTH, RANKMESH_I32, RANKMESH_SUM, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == 50 * r * (r - 1) + r * (int)i);

    give(in, r, LENGTH * (size_t)n);
    RUN(rankmesh_reduce_scatter(group->on, in, out, LENGTH, RANKMESH_I32, RANKMESH_SUM, started));
    for (size_t i = 0; i < LENGTH; ++i)
        EXPECT(out[i] == 50 * n * (n - 1) + n * (int)(i + LENGTH * (size_t)r));
    RUN(rankmesh_reduce_scatter(group->on, in, in + LENGTH * r, LENGTH, RANKMESH_I32, RANKMESH_SUM, started));
    EXPECT(memcmp(in + LENGTH * r, out, LENGTH * sizeof *out) == 0);
    return 0;
}

struct located {
    float value;
    int64_t index;
};

static int check_sums_and_locations(const struct group* group) {
    const int n = group->size, r = group->rank;
    const double large[] = {1e300, r == 0 ? 1 : 0, -1e300};
    const struct located in = {(float)(r / 2), 10 + r};
    struct located out = {0, 0};
    double sum = large[1];

    RUN(rankmesh_all_reduce(group->on, &sum, &sum, 1, RANKMESH_F64, RANKMESH_REPRODUCIBLE_SUM, started));
    EXPECT(sum == 1);
    CHECK(rankmesh_reproducible_sum(group->on, large, 3, RANKMESH_F64, &sum));
    EXPECT(sum == 1);
    CHECK(rankmesh_reproducible_dot(group->on, large + 1, large + 1, 1, RANKMESH_F64, &sum));
    EXPECT(sum == 1);
    RUN(rankmesh_all_reduce(group->on, &in, &out, 1, RANKMESH_F32, RANKMESH_MIN_LOCATION, started));
    EXPECT(out.value == 0 && out.index == 10);
    RUN(rankmesh_all_reduce(group->on, &in, &out, 1, RANKMESH_F32, RANKMESH_MAX_LOCATION, started));
    EXPECT(out.value == (float)((n - 1) / 2) && out.index == 10 + (n - 1) / 2 * 2);
    return 0;
}

static int check_moves(const struct group* group) {
    int32_t in[MOST * LENGTH], out[MOST * LENGTH];
    const int n = group->size, r = group->rank, root = group->root;

    give(in, r, LENGTH);
    RUN(rankmesh_broadcast(group->on, in, LENGTH, RANKMESH_I32, root, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(in[i] == mark(root, i));

    give(in, r, LENGTH);
    RUN(rankmesh_all_gather(group->on, in, out, LENGTH, RANKMESH_I32, started));
    for (size_t i = 0; i < LENGTH * (size_t)n; ++i) EXPECT(out[i] == mark((int)(i / LENGTH), i % LENGTH));
    memset(out, 0, sizeof out);
    give(out + LENGTH * r, r, LENGTH);
    RUN(rankmesh_all_gather(group->on, out + LENGTH * r, out, LENGTH, RANKMESH_I32, started));
    for (size_t i = 0; i < LENGTH * (size_t)n; ++i) EXPECT(out[i] == mark((int)(i / LENGTH), i % LENGTH));

    give(out, -1, LENGTH);
    RUN(rankmesh_gather(group->on, in, r == root ? out : NULL, LENGTH, RANKMESH_I32, root, started));
    for (size_t i = 0; r == root && i < LENGTH * (size_t)n; ++i)
        EXPECT(out[i] == mark((int)(i / LENGTH), i % LENGTH));

    give(in, r, LENGTH * (size_t)n);
    RUN(rankmesh_scatter(group->on, r == root ? in : NULL, out, LENGTH, RANKMESH_I32, root, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == mark(root, i + LENGTH * (size_t)r));

    RUN(rankmesh_all_to_all(group->on, in, out, LENGTH, RANKMESH_I32, started));
    for (size_t i = 0; i < LENGTH * (size_t)n; ++i)
        EXPECT(out[i] == mark((int)(i / LENGTH), i % LENGTH + LENGTH * (size_t)r));

    give(in, r, LENGTH);
    RUN(rankmesh_shift(group->on, in, out, LENGTH, RANKMESH_I32, 1, RANKMESH_WRAP, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == mark((r + n - 1) % n, i));
    give(out, -1, LENGTH);
    RUN(rankmesh_shift(group->on, in, out, LENGTH, RANKMESH_I32, 1, RANKMESH_OPEN, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == mark(r - 1, i));

    RUN(rankmesh_barrier(group->on, started));
    RUN(rankmesh_monitored_barrier(group->on, started));
    return 0;
}

/* Group rank i gives i elements to an all_gather_v, and i + j to group rank j in an all_to_all_v. */
static int check_lengths(const struct group* group) {
    int32_t in[2 * MOST * MOST], out[2 * MOST * MOST];
    size_t counts[MOST], own[MOST];
    const int n = group->size, r = group->rank;
    const int32_t* next = out;

    for (int i = 0; i < n; ++i) {
        counts[i] = (size_t)i;
        own[i] = (size_t)(i + r);
    }
    give(in, r, sizeof in / sizeof *in);
    RUN(rankmesh_all_gather_v(group->on, r > 0 ? in : NULL, out, counts, RANKMESH_I32, started));
    for (int from = 0; from < n; ++from)
        for (size_t i = 0; i < counts[from]; ++i) EXPECT(*next++ == mark(from, i));

    RUN(rankmesh_all_to_all_v(group->on, in, own, out, own, RANKMESH_I32, started));
    next = out;
    for (int from = 0; from < n; ++from) {
        size_t before = 0; /* what it gave to those before this one */
        for (int to = 0; to < r; ++to) before += (size_t)(from + to);
        for (size_t i = 0; i < own[from]; ++i) EXPECT(*next++ == mark(from, before + i));
    }

    RUN(rankmesh_gather_v(group->on, in, counts[r], r == group->root ? out : NULL,
                          r == group->root ? counts : NULL, RANKMESH_I32, group->root, started));
    next = out;
    for (int from = 0; r == group->root && from < n; ++from)
        for (size_t i = 0; i < counts[from]; ++i) EXPECT(*next++ == mark(from, i));
    RUN(rankmesh_scatter_v(group->on, r == group->root ? out : NULL, r == group->root ? counts : NULL, in,
                           counts[r], RANKMESH_I32, group->root, started));
    for (size_t i = 0; i < counts[r]; ++i) EXPECT(in[i] == mark(r, i));
    return 0;
}

/* The first rank learns whose message comes, and how long it is. */
static int check_any_rank(const struct group* group) {
    int32_t in[LENGTH], out[LENGTH];
    const int n = group->size, r = group->rank;
    int seen = 0;

    give(in, r, LENGTH);
    if (r > 0) {
        CHECK(rankmesh_send(group->on, in, LENGTH, RANKMESH_I32, 0, 9, NULL));
        return 0;
    }
    for (int turn = 1; turn < n; ++turn) {
        int sender = -1, found = 0;
        size_t bytes = 0;
        rankmesh_pending* pending = NULL;
        if (turn % 2 == 1) CHECK(rankmesh_probe(group->on, RANKMESH_ANY_RANK, 9, &sender, &bytes));
        if (turn % 2 == 1) CHECK(rankmesh_try_probe(group->on, sender, 9, &found, &sender, &bytes));
        EXPECT(turn % 2 == 0 || (found == 1 && bytes == sizeof in));
        if (group->started) {
            CHECK(rankmesh_recv(group->on, out, LENGTH, RANKMESH_I32, RANKMESH_ANY_RANK, 9, NULL, &pending));
            CHECK(rankmesh_pending_wait(pending));
            CHECK(rankmesh_pending_sender(pending, &sender));
            rankmesh_pending_free(pending);
        } else {
            CHECK(rankmesh_recv(group->on, out, LENGTH, RANKMESH_I32, RANKMESH_ANY_RANK, 9, &sender, NULL));
        }
        for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == mark(sender, i));
        seen += sender;
    }
    EXPECT(seen == n * (n - 1) / 2);
    return 0;
}

/* A ring, once by send_recv, once by messages of one batch; and from the first to the last. */
static int check_messages(const struct group* group) {
    int32_t in[LENGTH], out[LENGTH];
    const int n = group->size, r = group->rank;
    const int next = (r + 1) % n, last = (r + n - 1) % n;
    rankmesh_message both[2];
    int32_t wide[3 * LENGTH];
    const size_t extents[] = {LENGTH};
    const ptrdiff_t backwards[] = {-3};
    const rankmesh_strides apart = {1, extents, backwards};

    give(in, r, LENGTH);
    RUN(rankmesh_send_recv(group->on, in, LENGTH, next, out, LENGTH, last, 5, RANKMESH_I32, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == mark(last, i));

    memset(out, 0, sizeof out);
    both[0].sends = 1;
    both[0].peer = next;
    both[0].buffer = in;
    both[1].sends = 0;
    both[1].peer = last;
    both[1].buffer = out;
    both[0].count = both[1].count = LENGTH;
    both[0].dtype = both[1].dtype = RANKMESH_I32;
    both[0].tag = both[1].tag = 7;
    both[0].strides = both[1].strides = NULL;
    RUN(rankmesh_batch(group->on, both, 2, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == mark(last, i));
    RUN(rankmesh_batch(group->on, NULL, 0, started));

    /* The same to every third element of a larger array, from its last. */
    memset(wide, 0, sizeof wide);
    both[1].buffer = wide + 3 * (LENGTH - 1);
    both[1].strides = &apart;
    RUN(rankmesh_batch(group->on, both, 2, started));
    for (size_t i = 0; i < 3 * LENGTH; ++i)
        EXPECT(wide[i] == (i % 3 == 0 ? mark(last, LENGTH - 1 - i / 3) : 0));

    if (n > 1 && r == 0) RUN(rankmesh_send(group->on, in, LENGTH, RANKMESH_I32, n - 1, 3, started));
    if (n > 1 && r == n - 1) {
        RUN(rankmesh_recv(group->on, out, LENGTH, RANKMESH_I32, 0, 3, NULL, started));
        for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[i] == mark(0, i));
    }
    return 0;
}

/* Several operations that are waited for together, and one after the other. */
static int check_waiting(const struct group* group) {
    rankmesh_pending* pendings[4] = {NULL, NULL, NULL, NULL};
    int32_t sums[3] = {1, 1, 1};
    size_t index = 9;
    int found = 0;
    for (int i = 0; i < 3; ++i)
        CHECK(
            rankmesh_all_reduce(group->on, &sums[i], &sums[i], 1, RANKMESH_I32, RANKMESH_SUM, &pendings[i]));
    for (;;) {
        CHECK(rankmesh_pending_wait_any(pendings, 4, &index));
        if (index == 4) break;
        found |= 1 << index;
    }
    EXPECT(found == 7);
    for (int i = 0; i < 3; ++i) {
        EXPECT(sums[i] == group->size);
        rankmesh_pending_free(pendings[i]);
        CHECK(rankmesh_barrier(group->on, &pendings[i]));
    }
    CHECK(rankmesh_pending_wait_all(pendings, 4));
    CHECK(rankmesh_pending_wait_all(NULL, 0));
    for (int i = 0; i < 3; ++i) rankmesh_pending_free(pendings[i]);
    return 0;
}

/* A message to the next rank, which does not know of it, and one to this rank. */
static int check_sparse(const struct group* group) {
    int32_t in[LENGTH];
    const int n = group->size, r = group->rank, last = (r + n - 1) % n;
    const int peers[2] = {(r + 1) % n, r};
    const void* const buffers[2] = {in, in};
    const size_t counts[2] = {LENGTH, 0};
    rankmesh_received* received = NULL;
    const void* data = NULL;
    size_t found = 0, count = 0;
    int from = -1, seen = 0;
    give(in, r, LENGTH);
    CHECK(rankmesh_sparse_all_to_all(group->on, peers, buffers, counts, 2, RANKMESH_I32, &received));
    CHECK(rankmesh_received_count(received, &found));
    EXPECT(found == 2);
    for (size_t i = 0; i < found; ++i) {
        CHECK(rankmesh_received_message(received, i, &from, &data, &count));
        EXPECT(from == last || from == r);
        for (size_t k = 0; k < count; ++k) EXPECT(((const int32_t*)data)[k] == mark(last, k));
        seen += (int)count;
    }
    EXPECT(seen == LENGTH);
    rankmesh_received_free(received);
    return 0;
}

/* The operations of a handle read and write every third element of larger arrays. */
static int check_strided(const struct group* group) {
    int32_t in[3 * LENGTH], out[3 * MOST * LENGTH];
    double values[3 * LENGTH], sum = 0, dot = 0;
    const int n = group->size, r = group->rank;
    const size_t one[] = {LENGTH}, all[] = {(size_t)n, LENGTH};
    const ptrdiff_t step[] = {3}, steps[] = {3 * LENGTH, 3};
    const rankmesh_strides part = {1, one, step}, whole = {2, all, steps};
    rankmesh_communicator *parts = NULL, *gathers = NULL;

    CHECK(rankmesh_communicator_strided(group->on, &part, &part, &parts));
    CHECK(rankmesh_communicator_strided(group->on, &part, &whole, &gathers));
    for (size_t i = 0; i < 3 * LENGTH; ++i) in[i] = i % 3 == 0 ? mark(r, i / 3) : -1;
    memset(out, 0, sizeof out);
    RUN(rankmesh_all_gather(gathers, in, out, LENGTH, RANKMESH_I32, started));
    for (size_t i = 0; i < 3 * LENGTH * (size_t)n; ++i)
        EXPECT(out[i] == (i % 3 == 0 ? mark((int)(i / (3 * LENGTH)), i / 3 % LENGTH) : 0));

    RUN(rankmesh_shift(parts, in, out, LENGTH, RANKMESH_I32, 1, RANKMESH_WRAP, started));
    for (size_t i = 0; i < LENGTH; ++i) EXPECT(out[3 * i] == mark((r + n - 1) % n, i));
    RUN(rankmesh_broadcast(parts, in, LENGTH, RANKMESH_I32, group->root, started));
    for (size_t i = 0; i < 3 * LENGTH; ++i) EXPECT(in[i] == (i % 3 == 0 ? mark(group->root, i / 3) : -1));
    RUN(rankmesh_all_reduce(parts, in, in, LENGTH, RANKMESH_I32, RANKMESH_SUM, started));
    for (size_t i = 0; i < 3 * LENGTH; ++i) EXPECT(in[i] == (i % 3 == 0 ? n * mark(group->root, i / 3) : -1));

    for (size_t i = 0; i < 3 * LENGTH; ++i) values[i] = i % 3 == 0 ? 2 : 1e9;
    CHECK(rankmesh_reproducible_sum(parts, values, LENGTH, RANKMESH_F64, &sum));
    CHECK(rankmesh_reproducible_dot(parts, values, values, LENGTH, RANKMESH_F64, &dot));
    EXPECT(sum == 2.0 * LENGTH * n && dot == 4.0 * LENGTH * n);
    rankmesh_communicator_free(parts);
    rankmesh_communicator_free(gathers);
    return 0;
}

static int check_operations(rankmesh_communicator* on) {
    struct group group;
    group.on = on;
    CHECK(rankmesh_communicator_rank(on, &group.rank));
    CHECK(rankmesh_communicator_size(on, &group.size));
    group.root = group.size / 2;
    CHECK(check_waiting(&group));
    CHECK(check_sparse(&group));
    for (group.started = 0; group.started <= 1; ++group.started) {
        CHECK(check_reductions(&group));
        CHECK(check_sums_and_locations(&group));
        CHECK(check_moves(&group));
        CHECK(check_lengths(&group));
        CHECK(check_messages(&group));
        CHECK(check_any_rank(&group));
        CHECK(check_strided(&group));
    }
    return 0;
}

/* What a communicator says of itself is what the mesh says of its group. */
static int check_group(rankmesh_communicator* on, const rankmesh_mesh* mesh, int rank, const char* axes) {
    int ranks[MOST], expected[MOST], own, size, other;
    size_t count, expected_count, needed;
    char label[100];
    CHECK(rankmesh_mesh_group(mesh, rank, axes, expected, MOST, &expected_count));
    CHECK(rankmesh_communicator_world_ranks(on, ranks, MOST, &count));
    EXPECT(count == expected_count && memcmp(ranks, expected, count * sizeof *ranks) == 0);
    CHECK(rankmesh_communicator_size(on, &size));
    CHECK(rankmesh_communicator_rank(on, &own));
    EXPECT(size == (int)count && ranks[own] == rank);
    for (int i = 0; i < size; ++i) {
        CHECK(rankmesh_communicator_world_rank(on, i, &other));
        EXPECT(other == ranks[i]);
        CHECK(rankmesh_communicator_group_rank(on, other, &other));
        EXPECT(other == i);
    }
    CHECK(rankmesh_communicator_group_rank(on, 1000, &other));
    EXPECT(other == RANKMESH_NO_RANK);
    CHECK(rankmesh_communicator_label(on, label, sizeof label, &needed));
    EXPECT(strlen(label) + 1 == needed && strstr(label, axes) != NULL);
    return 0;
}

static int check_member(rankmesh_member* me, int rank, int world_size) {
    rankmesh_mesh* mesh = NULL;
    rankmesh_communicator *on = NULL, *own = NULL;
    int indices[MOST], at, inside, other, expected, on_device;
    size_t axes, count;
    char name[32], prefix[100];

    CHECK(rankmesh_member_inside(me, &inside));
    EXPECT(inside);
    CHECK(rankmesh_member_mesh(me, &mesh));
    CHECK(rankmesh_mesh_size(mesh, &other));
    EXPECT(other == world_size);
    CHECK(rankmesh_mesh_axis_count(mesh, &axes));
    CHECK(rankmesh_member_coord(me, indices, MOST, &count));
    EXPECT(count == axes);
    CHECK(rankmesh_member_rank_at(me, indices, count, &other));
    EXPECT(other == rank);
    for (size_t a = 0; a < axes; ++a) {
        CHECK(rankmesh_mesh_axis_name(mesh, a, name, sizeof name, NULL));
        CHECK(rankmesh_member_at(me, name, &at));
        EXPECT(at == indices[a]);
        CHECK(rankmesh_member_neighbor(me, name, 1, RANKMESH_OPEN, &other));
        CHECK(rankmesh_mesh_neighbor(mesh, rank, name, 1, RANKMESH_OPEN, &expected));
        EXPECT(other == expected);
        CHECK(rankmesh_member_on(me, name, &on));
        CHECK(check_group(on, mesh, rank, name));
        CHECK(check_operations(on));
        CHECK(rankmesh_communicator_within(on, 50, &own));
        CHECK(check_group(own, mesh, rank, name));
        rankmesh_communicator_free(own);
        CHECK(rankmesh_communicator_host(on, &own));
        CHECK(rankmesh_communicator_is_on_device(own, &on_device));
        EXPECT(!on_device);
        rankmesh_communicator_free(own);
        EXPECT(rankmesh_communicator_on_stream(on, NULL, &own) == RANKMESH_USAGE_ERROR && own == NULL);
        rankmesh_communicator_free(on);
    }
    CHECK(rankmesh_member_prefix(me, prefix, sizeof prefix, NULL));
    EXPECT(prefix[0] == '[');
    rankmesh_mesh_free(mesh);
    return 0;
}

/* What is suspended says so until it is resumed. */
static int check_rest(rankmesh_member* dense, int size) {
    rankmesh_communicator* on = NULL;
    rankmesh_usage before, usage;
    CHECK(rankmesh_member_usage(dense, &before));
    EXPECT(before.suspended == 0 && (before.communicators > 0) == (size > 1));
    CHECK(rankmesh_member_suspend(dense, "dp,tp"));
    CHECK(rankmesh_member_usage(dense, &usage));
    EXPECT(usage.suspended == (size > 1) && usage.communicators == before.communicators);
    EXPECT(usage.connections <= before.connections && usage.descriptors <= before.descriptors);
    CHECK(rankmesh_member_on(dense, "tp,dp", &on));
    if (size > 1) EXPECT(rankmesh_barrier(on, NULL) == RANKMESH_USAGE_ERROR);
    CHECK(rankmesh_member_resume(dense, "tp,dp"));
    CHECK(check_operations(on));
    rankmesh_communicator_free(on);
    CHECK(rankmesh_member_suspend(dense, NULL));
    CHECK(rankmesh_member_usage(dense, &usage));
    EXPECT((usage.suspended > 0) == (size > 1));
    CHECK(rankmesh_member_resume(dense, NULL));
    CHECK(rankmesh_member_usage(dense, &usage));
    EXPECT(memcmp(&usage, &before, sizeof usage) == 0);
    return 0;
}

/* Groups that are made at run time: all ranks turned round, and those of one parity, once with some that have
   no color. */
static int check_groups(rankmesh_member* me, int rank, int size) {
    rankmesh_group_options options;
    rankmesh_communicator *on = NULL, *part = NULL;
    rankmesh_usage before, usage;
    int ranks[MOST], found[MOST], own;
    const int color = rank % 2;
    size_t count;
    char label[100];

    memset(&options, 0, sizeof options);
    options.name = "turned";
    options.timeout_seconds = 20;
    for (int i = 0; i < size; ++i) ranks[i] = size - 1 - i;
    CHECK(rankmesh_member_usage(me, &before));
    CHECK(rankmesh_member_group(me, ranks, (size_t)size, &options, &on));
    CHECK(rankmesh_communicator_world_ranks(on, found, MOST, &count));
    EXPECT(count == (size_t)size && memcmp(ranks, found, count * sizeof *ranks) == 0);
    CHECK(rankmesh_communicator_label(on, label, sizeof label, NULL));
    EXPECT(strstr(label, "turned") != NULL);
    CHECK(check_operations(on));
    CHECK(rankmesh_member_usage_of(me, on, &usage));
    EXPECT(usage.communicators == (size > 1) && usage.suspended == 0);
    CHECK(rankmesh_member_usage(me, &before));
    EXPECT(usage.connections <= before.connections && usage.descriptors <= before.descriptors);

    CHECK(rankmesh_member_split(me, on, &color, rank, NULL, &part));
    CHECK(rankmesh_communicator_world_ranks(part, found, MOST, &count));
    EXPECT(count == (size_t)((size + 1 - color) / 2));
    for (size_t i = 0; i < count; ++i) EXPECT(found[i] == 2 * (int)i + color);
    CHECK(check_operations(part));
    rankmesh_communicator_free(part);
    /* By one key, in the order of those that are split. */
    CHECK(rankmesh_member_split(me, on, rank == 0 ? NULL : &color, 0, NULL, &part));
    EXPECT((part == NULL) == (rank == 0));
    if (part != NULL) {
        CHECK(rankmesh_communicator_rank(part, &own));
        CHECK(rankmesh_communicator_world_ranks(part, found, MOST, &count));
        for (size_t i = 1; i < count; ++i) EXPECT(found[i] < found[i - 1]);
        EXPECT(found[own] == rank);
    }
    rankmesh_communicator_free(part);
    rankmesh_communicator_free(on);
    CHECK(rankmesh_member_split(me, NULL, &color, -rank, &options, &part));
    CHECK(rankmesh_communicator_rank(part, &own));
    EXPECT(own == (size - 1 - rank) / 2);
    rankmesh_communicator_free(part);
    return 0;
}

/* Two meshes with all that a declaration can say. */
static int check_plan(rankmesh_world* world, int rank, int size) {
    const int ends[] = {0, -1};
    int placed[MOST];
    const rankmesh_axes over[] = {{"tp,dp", NULL, 0}, {"dp", "gather", 20}};
    const rankmesh_pick picks[] = {{"dp", ends, 2, "ends"}};
    rankmesh_declaration plan[2];
    rankmesh_member *me = NULL, *dense = NULL, *turned = NULL;
    rankmesh_communicator* on = NULL;
    int other;

    memset(plan, 0, sizeof plan);
    plan[0].name = "dense";
    plan[0].mesh = size % 2 == 0 ? "dp=* tp=2" : "dp=* tp=1";
    plan[0].over = over;
    plan[0].over_count = 2;
    plan[0].picks = picks;
    plan[0].pick_count = 1;
    plan[0].local = "node";
    plan[0].timeout_seconds = 30;
    for (int i = 0; i < size; ++i) placed[i] = size - 1 - i;
    plan[1].name = "turned";
    plan[1].mesh = "a=* b=1";
    plan[1].axes = "a";
    plan[1].placed = placed;
    plan[1].placed_count = (size_t)size;
    plan[1].lazy = 1;
    CHECK(rankmesh_world_join(world, plan, 2, &me));
    CHECK(rankmesh_member_in(me, "dense", &dense));
    CHECK(rankmesh_member_in(me, "turned", &turned));
    rankmesh_member_free(me);

    CHECK(check_member(dense, rank, size));
    CHECK(rankmesh_member_on(dense, "dp,tp", &on));
    CHECK(check_operations(on));
    rankmesh_communicator_free(on);
    CHECK(rankmesh_member_on(dense, "gather", &on));
    CHECK(check_operations(on));
    rankmesh_communicator_free(on);
    CHECK(rankmesh_member_on(dense, "node", &on));
    CHECK(check_operations(on));
    rankmesh_communicator_free(on);
    CHECK(rankmesh_member_find(dense, "ends", &on));
    if (on != NULL) CHECK(check_operations(on));
    rankmesh_communicator_free(on);

    CHECK(rankmesh_member_find(turned, "b", &on));
    EXPECT(on == NULL);
    if (size > 1) EXPECT(rankmesh_member_on(turned, "a", &on) == RANKMESH_USAGE_ERROR && on == NULL);
    CHECK(rankmesh_member_prepare(turned, "a"));
    CHECK(rankmesh_member_on(turned, "a", &on));
    CHECK(rankmesh_communicator_rank(on, &other));
    EXPECT(other == size - 1 - rank);
    CHECK(check_operations(on));
    rankmesh_communicator_free(on);
    CHECK(check_groups(dense, rank, size));
    CHECK(check_rest(dense, size));
    rankmesh_member_free(turned);
    rankmesh_member_free(dense);
    return 0;
}

static int program(rankmesh_world* world, void* engine) {
    int rank, size, local_rank, local_size, own, count = 0, ranks[MOST];
    char name[100];
    rankmesh_world* sub = NULL;
    CHECK(rankmesh_world_rank(world, &rank));
    CHECK(rankmesh_world_size(world, &size));
    EXPECT(size <= MOST);
    CHECK(rankmesh_world_local_rank(world, &local_rank));
    CHECK(rankmesh_world_local_size(world, &local_size));
    EXPECT(local_rank < local_size && local_size <= size);
    CHECK(rankmesh_world_host(world, name, sizeof name, NULL));
    EXPECT(name[0] != '\0');
    CHECK(rankmesh_world_engine(world, name, sizeof name, NULL));
    if (engine != NULL) EXPECT(strcmp(name, engine) == 0);
    CHECK(check_plan(world, rank, size));

    /* Ranks of one parity, turned round, are a world of their own. */
    for (int other = size - 1; other >= 0; --other)
        if (other % 2 == rank % 2) ranks[count++] = other;
    CHECK(rankmesh_world_sub(world, ranks, (size_t)count, &sub));
    CHECK(rankmesh_world_rank(sub, &own));
    EXPECT(ranks[own] == rank);
    CHECK(check_plan(sub, own, count));
    rankmesh_world_free(sub);
    return 0;
}

/* Ranks that let one in, or the process that comes. */
static int check_growth(const rankmesh_world_options* options, int comes) {
    rankmesh_world *world = NULL, *larger = NULL;
    int before = 0, rank, size;
    if (comes) {
        CHECK(rankmesh_world_rejoin(options, &larger));
    } else {
        CHECK(rankmesh_world_from_environment(options, &world));
        CHECK(rankmesh_world_size(world, &before));
        CHECK(rankmesh_world_grow(world, 1, 30, &larger));
    }
    CHECK(rankmesh_world_rank(larger, &rank));
    CHECK(rankmesh_world_size(larger, &size));
    EXPECT(comes ? rank == size - 1 : size == before + 1);
    CHECK(check_plan(larger, rank, size));
    printf("rank %d is right\n", rank);
    rankmesh_world_free(larger);
    rankmesh_world_free(world);
    return 0;
}

int main(int argc, char** argv) {
    rankmesh_world* world = NULL;
    rankmesh_world_options options;
    int code, rank;
    memset(&options, 0, sizeof options);
    options.timeout_seconds = 40;
    if (argc > 1 && (strcmp(argv[1], "grows") == 0 || strcmp(argv[1], "comes") == 0))
        return check_growth(&options, argv[1][0] == 'c');
    if (argc > 1) {
        code = rankmesh_threads_run(atoi(argv[1]), program, "threads", &options);
        if (code != 0) fprintf(stderr, "%d: %s\n", code, rankmesh_error_text());
        return code;
    }
    CHECK(rankmesh_world_from_environment(&options, &world));
    CHECK(rankmesh_world_rank(world, &rank));
    code = program(world, NULL);
    if (code == 0) printf("rank %d is right\n", rank);
    if (code == 0)
        rankmesh_world_free(world);
    else
        rankmesh_world_abandon(world);
    return code;
}
