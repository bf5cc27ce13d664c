// SPDX-License-Identifier: Apache-2.0
/// The C99 interface of rankmesh, for C and every language that can call it: meshes, worlds, join and the
/// collectives.
///
/// A function that can fail returns RANKMESH_OK, which is 0, or the kind of the error, whose text
/// rankmesh_error_text() has on the thread that called. Its result is written through its last pointer, NULL
/// where it failed. Objects are freed once, in any order, and NULL may be freed: the engine of a world ends
/// after its last member, communicator and pending are freed. A NULL where a value is required is an error,
/// never a crash.
///
/// A text is written with its terminating zero: `needed` is set to its size in bytes, and a smaller buffer is
/// an error, so call with NULL and 0 first. Lists of ranks are written in the same way, counted in ranks. A
/// set of axes is a text with commas between their names, in any order: "dp,cp".
#ifndef RANKMESH_RANKMESH_H
#define RANKMESH_RANKMESH_H

#include <stddef.h>
#include <stdint.h>

#if !defined(RANKMESH_C_API)
#if defined(__GNUC__)
#define RANKMESH_C_API __attribute__((visibility("default")))
#else
#define RANKMESH_C_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

// --- errors

/// What a function returns: one of these numbers, which never change.
typedef int rankmesh_error;
enum {
    RANKMESH_OK = 0,
    RANKMESH_USAGE_ERROR = 1,     ///< the call itself is wrong: a NULL, an unknown axis, a bad size
    RANKMESH_DISAGREEMENT = 2,    ///< ranks that had to say the same thing said different things
    RANKMESH_TIMEOUT = 3,         ///< not all ranks came in time
    RANKMESH_LOST = 4,            ///< peers are gone
    RANKMESH_ENGINE_FAILURE = 5,  ///< the engine below reported an error of its own
    RANKMESH_NOT_BUILT = 6,       ///< the engine asked for is not in this build
    RANKMESH_OTHER_FAILURE = 7    ///< anything else, such as memory that ran out
};

/// The text of the last error of this thread, "" before the first; valid until the next error of this thread.
RANKMESH_C_API const char* rankmesh_error_text(void);

/// Which ranks an error names.
typedef int rankmesh_error_list;
enum {
    RANKMESH_RANKS_DIFFERING = 0,  ///< of a disagreement: those outside the largest class
    RANKMESH_RANKS_ARRIVED = 1,    ///< of a timeout; this list and the next are empty where nobody can tell
    RANKMESH_RANKS_MISSING = 2,    ///< of a timeout
    RANKMESH_RANKS_LOST = 3        ///< of lost peers
};
/// The world ranks of that kind that the last error of this thread names, `*count` of them; valid until the
/// next error of this thread. There are none, and the answer is NULL, where the error names none or `count`
/// is NULL.
RANKMESH_C_API const int* rankmesh_error_ranks(rankmesh_error_list which, size_t* count);

// --- what elements are, and how they are reduced

typedef int rankmesh_dtype;
enum {
    RANKMESH_I8 = 0,
    RANKMESH_I16 = 1,
    RANKMESH_I32 = 2,
    RANKMESH_I64 = 3,
    RANKMESH_U8 = 4,
    RANKMESH_U16 = 5,
    RANKMESH_U32 = 6,
    RANKMESH_U64 = 7,
    RANKMESH_BOOL = 8,
    RANKMESH_BYTE = 9,  ///< what is moved and not computed with: any struct, as so many bytes
    RANKMESH_F8E4M3 = 10,
    RANKMESH_F8E5M2 = 11,
    RANKMESH_F16 = 12,
    RANKMESH_BF16 = 13,
    RANKMESH_F32 = 14,
    RANKMESH_F64 = 15
};
/// The bytes of one element; 0 if there is no such type.
RANKMESH_C_API size_t rankmesh_dtype_size(rankmesh_dtype dtype);

typedef int rankmesh_reduction;
enum {
    RANKMESH_SUM = 0,
    RANKMESH_PROD = 1,
    RANKMESH_MIN = 2,
    RANKMESH_MAX = 3,
    RANKMESH_MEAN = 4,  ///< floating-point types only, and not for scan
    RANKMESH_BIT_AND = 5,
    RANKMESH_BIT_OR = 6,
    RANKMESH_BIT_XOR = 7,
    RANKMESH_LOGICAL_AND = 8,
    RANKMESH_LOGICAL_OR = 9,
    RANKMESH_LOGICAL_XOR = 10
};

/// What follows the ends of an axis or a group.
typedef int rankmesh_edge;
enum {
    RANKMESH_OPEN = 0,  ///< nothing
    RANKMESH_WRAP = 1   ///< its other end
};

/// The rank that is returned where there is none: past an open edge, or outside a group.
#define RANKMESH_NO_RANK (-1)

// --- meshes: questions that need no process

/// An ordered list of named axes laid over ranks, outermost first: `pp=4 dp=8 tp=8`. Any thread may use it.
typedef struct rankmesh_mesh rankmesh_mesh;

/// Reads `pp=4 dp=8 tp=8`, `pp=2:32 dp=4:8 @64`, or `dp=* tp=8` in a world of `world` ranks; `world` is 0
/// where no size is `*`.
RANKMESH_C_API rankmesh_error rankmesh_mesh_parse(const char* text, int world, rankmesh_mesh** mesh);
RANKMESH_C_API void rankmesh_mesh_free(rankmesh_mesh* mesh);
/// The mesh in the notation that rankmesh_mesh_parse reads.
RANKMESH_C_API rankmesh_error rankmesh_mesh_text(const rankmesh_mesh* mesh, char* text, size_t size,
                                                 size_t* needed);
/// The number of ranks.
RANKMESH_C_API rankmesh_error rankmesh_mesh_size(const rankmesh_mesh* mesh, int* size);
/// The lowest rank.
RANKMESH_C_API rankmesh_error rankmesh_mesh_offset(const rankmesh_mesh* mesh, int* offset);
/// One more than the highest rank: the smallest world in which the mesh fits.
RANKMESH_C_API rankmesh_error rankmesh_mesh_extent(const rankmesh_mesh* mesh, int* extent);

RANKMESH_C_API rankmesh_error rankmesh_mesh_axis_count(const rankmesh_mesh* mesh, size_t* count);
/// The name of axis number `axis`, outermost 0.
RANKMESH_C_API rankmesh_error rankmesh_mesh_axis_name(const rankmesh_mesh* mesh, size_t axis, char* name,
                                                      size_t size, size_t* needed);
/// The number of the axis of that name, outermost 0.
RANKMESH_C_API rankmesh_error rankmesh_mesh_axis_number(const rankmesh_mesh* mesh, const char* axis,
                                                        size_t* number);
/// The number of positions on an axis.
RANKMESH_C_API rankmesh_error rankmesh_mesh_axis_size(const rankmesh_mesh* mesh, const char* axis, int* size);

/// 1 if `rank` is in the mesh, else 0.
RANKMESH_C_API rankmesh_error rankmesh_mesh_contains(const rankmesh_mesh* mesh, int rank, int* contains);
/// The index of `rank` on every axis, outermost first.
RANKMESH_C_API rankmesh_error rankmesh_mesh_coord(const rankmesh_mesh* mesh, int rank, int* indices,
                                                  size_t size, size_t* needed);
/// The rank at these indices, one for each axis, outermost first.
RANKMESH_C_API rankmesh_error rankmesh_mesh_rank(const rankmesh_mesh* mesh, const int* indices, size_t count,
                                                 int* rank);
/// The index of `rank` on one axis.
RANKMESH_C_API rankmesh_error rankmesh_mesh_index(const rankmesh_mesh* mesh, int rank, const char* axis,
                                                  int* index);
/// The rank `by` steps along an axis; RANKMESH_NO_RANK past an open edge.
RANKMESH_C_API rankmesh_error rankmesh_mesh_neighbor(const rankmesh_mesh* mesh, int rank, const char* axis,
                                                     int by, rankmesh_edge edge, int* neighbor);

/// The ranks that differ from `rank` only along these axes, in mesh order; "" is no axis, a group of one.
RANKMESH_C_API rankmesh_error rankmesh_mesh_group(const rankmesh_mesh* mesh, int rank, const char* axes,
                                                  int* ranks, size_t size, size_t* needed);
/// The number of ranks of each group along these axes.
RANKMESH_C_API rankmesh_error rankmesh_mesh_group_size(const rankmesh_mesh* mesh, const char* axes,
                                                       int* size);
/// The rank at `group_rank` in the group of `rank`, without making a list.
RANKMESH_C_API rankmesh_error rankmesh_mesh_group_member(const rankmesh_mesh* mesh, int rank,
                                                         const char* axes, int group_rank, int* member);
/// The group rank of `member` in the group of `rank`; RANKMESH_NO_RANK if it is not in it.
RANKMESH_C_API rankmesh_error rankmesh_mesh_group_rank(const rankmesh_mesh* mesh, int rank, const char* axes,
                                                       int member, int* group_rank);
/// The ranks of all groups along these axes, one group after the other, in the order of their first ranks.
RANKMESH_C_API rankmesh_error rankmesh_mesh_partition(const rankmesh_mesh* mesh, const char* axes, int* ranks,
                                                      size_t size, size_t* needed);
/// How many groups there are along these axes.
RANKMESH_C_API rankmesh_error rankmesh_mesh_partition_size(const rankmesh_mesh* mesh, const char* axes,
                                                           int* size);
/// The first rank of group number `group` along these axes, with which the group can be queried.
RANKMESH_C_API rankmesh_error rankmesh_mesh_partition_first(const rankmesh_mesh* mesh, const char* axes,
                                                            int group, int* rank);

// --- worlds

/// The processes of a job, and the object through which this process reaches them.
typedef struct rankmesh_world rankmesh_world;

/// The options of a world; what is left 0 or NULL is the default.
typedef struct rankmesh_world_options {
    /// "threads", "mpi" or "gloo"; NULL: as RANKMESH_ENGINE and the launcher say.
    const char* engine;
    /// The timeout of join, and of every blocking call whose mesh does not set its own; 0: half an hour.
    double timeout_seconds;
    /// 1 if several threads of this process will communicate.
    int multithreaded;
    /// 1: the ranks of a group compare each call before its data moves, -1: they do not, 0: as RANKMESH_CHECK
    /// says.
    int checked;
    /// Called with a line for each event of the world and its members, on the thread where it happens.
    void (*log)(const char* line, void* user);
    void* log_user;
} rankmesh_world_options;

/// The world that this process was started in: MPI under mpirun, Gloo where the launcher or RANKMESH_STORE
/// says how the processes find each other, one rank alone without a launcher. `options` may be NULL.
RANKMESH_C_API rankmesh_error rankmesh_world_from_environment(const rankmesh_world_options* options,
                                                              rankmesh_world** world);
/// Runs `program` as `size` ranks of one world, each a thread of this process, and returns when all have
/// returned. `options` may be NULL.
///
/// The program must not free the world; `user` is passed to it. A program that returns another number than 0
/// has failed: calls of its peers return RANKMESH_LOST, and this returns the error of the rank that failed
/// first.
RANKMESH_C_API rankmesh_error rankmesh_threads_run(int size,
                                                   int (*program)(rankmesh_world* world, void* user),
                                                   void* user, const rankmesh_world_options* options);
/// The ranks of `host`, each with a device, whose memory communicators work on by NCCL; `device` is its
/// number, or -1 for the local rank's own. All ranks of `host` call it.
RANKMESH_C_API rankmesh_error rankmesh_world_nccl(const rankmesh_world* host, int device,
                                                  rankmesh_world** world);
/// A new world of some ranks, in that order; called by exactly those.
RANKMESH_C_API rankmesh_error rankmesh_world_sub(rankmesh_world* world, const int* ranks, size_t count,
                                                 rankmesh_world** sub);
/// A new world of the surviving ranks: those that call this within `grace_seconds` of each other after they
/// got RANKMESH_LOST. Supported on Gloo.
RANKMESH_C_API rankmesh_error rankmesh_world_survivors(rankmesh_world* world, double grace_seconds,
                                                       rankmesh_world** survivors);
/// A new world of these ranks and of up to `most` processes that wait in rankmesh_world_rejoin; all ranks
/// call it, and those that come take the places of ranks that are gone. It returns once so many have come, or
/// with those that have come when `timeout_seconds` are over; RANKMESH_TIMEOUT if none has. This world stays
/// usable. Supported on Gloo with a store, on threads, and on NCCL over them.
RANKMESH_C_API rankmesh_error rankmesh_world_grow(rankmesh_world* world, int most, double timeout_seconds,
                                                  rankmesh_world** larger);
/// The world of a running job that this process enters when its ranks call rankmesh_world_grow: the job of
/// RANKMESH_STORE and RANKMESH_JOB, in the place of the rank RANK if that is set. It waits for the timeout of
/// the options, which may be NULL.
RANKMESH_C_API rankmesh_error rankmesh_world_rejoin(const rankmesh_world_options* options,
                                                    rankmesh_world** world);
RANKMESH_C_API void rankmesh_world_free(rankmesh_world* world);
/// Frees the world of a program that has failed and exits: never waits for peers, whose calls return
/// RANKMESH_LOST; on MPI the job ends. A program of rankmesh_threads_run returns another number than 0
/// instead.
RANKMESH_C_API void rankmesh_world_abandon(rankmesh_world* world);

RANKMESH_C_API rankmesh_error rankmesh_world_rank(const rankmesh_world* world, int* rank);
RANKMESH_C_API rankmesh_error rankmesh_world_size(const rankmesh_world* world, int* size);
/// The name of the engine: "threads", "mpi" or "gloo".
RANKMESH_C_API rankmesh_error rankmesh_world_engine(const rankmesh_world* world, char* engine, size_t size,
                                                    size_t* needed);
/// The name of this process's host.
RANKMESH_C_API rankmesh_error rankmesh_world_host(const rankmesh_world* world, char* host, size_t size,
                                                  size_t* needed);
/// This rank's index among the ranks on its host, from 0, and their number.
RANKMESH_C_API rankmesh_error rankmesh_world_local_rank(const rankmesh_world* world, int* rank);
RANKMESH_C_API rankmesh_error rankmesh_world_local_size(const rankmesh_world* world, int* size);

// --- plans and members

/// A set of axes that gets a communicator.
typedef struct rankmesh_axes {
    const char* axes;        ///< "dp,cp"
    const char* separate;    ///< if not NULL, over a channel of its own, which is found by this name
    double timeout_seconds;  ///< of its blocking calls; 0: the mesh's
} rankmesh_axes;

/// Some ranks of each group along axis `of`, by index, negative ones counted from the end; found by the name
/// `as`.
typedef struct rankmesh_pick {
    const char* of;
    const int* at;
    size_t at_count;
    const char* as;
} rankmesh_pick;

/// One mesh of a plan, and which communicators it gets; what is left 0 or NULL is the default.
typedef struct rankmesh_declaration {
    /// The name for rankmesh_member_in; may be NULL in a plan of one mesh.
    const char* name;
    /// `pp=2 dp=* tp=2`, where `*` is what the world leaves over.
    const char* mesh;
    /// Sets of axes that get a communicator besides the single axes.
    const rankmesh_axes* over;
    size_t over_count;
    const rankmesh_pick* picks;
    size_t pick_count;
    /// The name of the group of this mesh's ranks on one host, used like an axis; NULL: no such group.
    const char* local;
    /// The single axes that get a communicator, "dp,tp"; NULL: all of them.
    const char* axes;
    /// The rank at each position, for layouts that strides cannot express; NULL: as the strides say.
    const int* placed;
    size_t placed_count;
    /// 1 if ranks of the world may be left out.
    int partial;
    /// 1 if nothing is connected at join, but each set at rankmesh_member_prepare.
    int lazy;
    /// The timeout of every blocking call on this mesh; 0: the world's.
    double timeout_seconds;
} rankmesh_declaration;

/// This process's part in a plan, or in one of its meshes: its coordinate, its neighbours and its
/// communicators.
typedef struct rankmesh_member rankmesh_member;
/// A live group: what collectives run on. One thread at a time uses it.
typedef struct rankmesh_communicator rankmesh_communicator;

/// Makes this process's communicators for a plan of `count` meshes over one world; every rank calls it with
/// the same plan, which is compared across all ranks before anything is made.
RANKMESH_C_API rankmesh_error rankmesh_world_join(rankmesh_world* world, const rankmesh_declaration* plan,
                                                  size_t count, rankmesh_member** member);
RANKMESH_C_API void rankmesh_member_free(rankmesh_member* member);
/// The part in the mesh of that name, which a plan of one mesh does not need.
RANKMESH_C_API rankmesh_error rankmesh_member_in(const rankmesh_member* member, const char* mesh,
                                                 rankmesh_member** place);
/// The mesh with `*` resolved; if the declaration places ranks, its ranks are positions.
RANKMESH_C_API rankmesh_error rankmesh_member_mesh(const rankmesh_member* member, rankmesh_mesh** mesh);
/// 1 if this rank is in the mesh, else 0: then the functions below are errors.
RANKMESH_C_API rankmesh_error rankmesh_member_inside(const rankmesh_member* member, int* inside);
/// This rank's index on every axis, outermost first.
RANKMESH_C_API rankmesh_error rankmesh_member_coord(const rankmesh_member* member, int* indices, size_t size,
                                                    size_t* needed);
/// This rank's index on an axis, or among the declared local ranks.
RANKMESH_C_API rankmesh_error rankmesh_member_at(const rankmesh_member* member, const char* axis, int* index);
/// The world rank `by` steps along an axis; RANKMESH_NO_RANK past an open edge.
RANKMESH_C_API rankmesh_error rankmesh_member_neighbor(const rankmesh_member* member, const char* axis,
                                                       int by, rankmesh_edge edge, int* neighbor);
/// The world rank at these indices of the mesh, one for each axis, also for ranks outside it.
RANKMESH_C_API rankmesh_error rankmesh_member_rank_at(const rankmesh_member* member, const int* indices,
                                                      size_t count, int* rank);
/// `[pp=1 dp=0 tp=3]`: the prefix of this rank's log lines.
RANKMESH_C_API rankmesh_error rankmesh_member_prefix(const rankmesh_member* member, char* prefix, size_t size,
                                                     size_t* needed);
/// The communicator of a single axis, a declared set of axes in any order, or a declared pick, separate
/// channel or local ranks by their name.
RANKMESH_C_API rankmesh_error rankmesh_member_on(const rankmesh_member* member, const char* axes,
                                                 rankmesh_communicator** communicator);
/// The same, but NULL and no error where this rank has no such communicator.
RANKMESH_C_API rankmesh_error rankmesh_member_find(const rankmesh_member* member, const char* axes,
                                                   rankmesh_communicator** communicator);
/// Connects a set that a lazy declaration deferred; collective: every rank of the mesh calls it with the same
/// axes.
RANKMESH_C_API rankmesh_error rankmesh_member_prepare(const rankmesh_member* member, const char* axes);
/// Options of a group that is made at run time; what is left 0 or NULL is the default.
typedef struct rankmesh_group_options {
    /// What errors and records call it, a name as an axis has; NULL: its ranks, or its color.
    const char* name;
    /// The timeout of its blocking calls; 0: the mesh's.
    double timeout_seconds;
} rankmesh_group_options;

/// A communicator of these ranks of the world, in that order; called by exactly those ranks, and no other
/// takes part. They compare their lists first. `options` may be NULL.
RANKMESH_C_API rankmesh_error rankmesh_member_group(const rankmesh_member* member, const int* ranks,
                                                    size_t count, const rankmesh_group_options* options,
                                                    rankmesh_communicator** communicator);
/// The communicator of the ranks of `over` that give the same color, ordered by key and then as in `over`;
/// collective over `over`, with NULL over the world. NULL and no error for a rank without a color, whose
/// `color` is NULL. `options` may be NULL.
RANKMESH_C_API rankmesh_error rankmesh_member_split(const rankmesh_member* member,
                                                    const rankmesh_communicator* over, const int* color,
                                                    int key, const rankmesh_group_options* options,
                                                    rankmesh_communicator** communicator);
/// Releases what the communicator of a declared set holds while it is idle, with NULL those of the whole
/// mesh, or plan; collective over its ranks. Calls on it, and on all that share its connections, are errors
/// until it is resumed.
RANKMESH_C_API rankmesh_error rankmesh_member_suspend(const rankmesh_member* member, const char* axes);
/// Brings back what was released; called as that was.
RANKMESH_C_API rankmesh_error rankmesh_member_resume(const rankmesh_member* member, const char* axes);

/// What communicators of this process hold together, those of the plan and of groups made at run time.
typedef struct rankmesh_usage {
    /// Those of two or more ranks; sets of axes that share one count once.
    int communicators;
    /// How many of them are suspended.
    int suspended;
    /// Connections to other processes.
    int connections;
    /// Open files of this process.
    int descriptors;
} rankmesh_usage;

/// Asks nobody.
RANKMESH_C_API rankmesh_error rankmesh_member_usage(const rankmesh_member* member, rankmesh_usage* usage);
/// The same of one communicator of this member.
RANKMESH_C_API rankmesh_error rankmesh_member_usage_of(const rankmesh_member* member,
                                                       const rankmesh_communicator* communicator,
                                                       rankmesh_usage* usage);

// --- communicators

RANKMESH_C_API void rankmesh_communicator_free(rankmesh_communicator* communicator);
/// This process's rank in the group, from 0.
RANKMESH_C_API rankmesh_error rankmesh_communicator_rank(const rankmesh_communicator* communicator,
                                                         int* rank);
RANKMESH_C_API rankmesh_error rankmesh_communicator_size(const rankmesh_communicator* communicator,
                                                         int* size);
/// The world rank at a group rank.
RANKMESH_C_API rankmesh_error rankmesh_communicator_world_rank(const rankmesh_communicator* communicator,
                                                               int group_rank, int* world_rank);
/// The world ranks of the group, in group-rank order.
RANKMESH_C_API rankmesh_error rankmesh_communicator_world_ranks(const rankmesh_communicator* communicator,
                                                                int* ranks, size_t size, size_t* needed);
/// The group rank of a world rank; RANKMESH_NO_RANK if it is not in the group.
RANKMESH_C_API rankmesh_error rankmesh_communicator_group_rank(const rankmesh_communicator* communicator,
                                                               int world_rank, int* group_rank);
/// A description for messages: `'dp,cp' of mesh 'dense'`.
RANKMESH_C_API rankmesh_error rankmesh_communicator_label(const rankmesh_communicator* communicator,
                                                          char* label, size_t size, size_t* needed);
/// The same channel with another timeout for its blocking calls.
RANKMESH_C_API rankmesh_error rankmesh_communicator_within(const rankmesh_communicator* communicator,
                                                           double timeout_seconds,
                                                           rankmesh_communicator** own);
/// 1 if its buffers must be on a device, 0 if on the host.
RANKMESH_C_API rankmesh_error rankmesh_communicator_is_on_device(const rankmesh_communicator* communicator,
                                                                 int* is_on_device);
/// The same group on the host's engine, for buffers in the host's memory.
RANKMESH_C_API rankmesh_error rankmesh_communicator_host(const rankmesh_communicator* communicator,
                                                         rankmesh_communicator** host);
/// The same channel with its calls ordered on a stream of the device, a `cudaStream_t`.
RANKMESH_C_API rankmesh_error rankmesh_communicator_on_stream(const rankmesh_communicator* communicator,
                                                              void* stream, rankmesh_communicator** own);

// --- collectives
//
// Every rank of the group calls the same ones in the same order, with the same counts. Counts are elements of
// `dtype`. Buffers are in the memory that the communicator works on, and a NULL is allowed where nothing is
// read or written: for a count of 0, and for what only the root has.
//
// Each blocks where its last argument, `pending`, is NULL. Else it returns at once, and `*pending` is what
// rankmesh_pending_wait waits for; the buffers belong to the operation until then.

/// A started operation; its buffers must not be used or freed until it has been waited for.
typedef struct rankmesh_pending rankmesh_pending;

/// Returns once the operation is complete and its buffers may be used again; a second call does nothing. On a
/// device it returns at once; later work on the stream is ordered after the operation.
RANKMESH_C_API rankmesh_error rankmesh_pending_wait(rankmesh_pending* pending);
/// The same, and on a device blocks this thread until it is complete, also after rankmesh_pending_wait.
RANKMESH_C_API rankmesh_error rankmesh_pending_synchronize(rankmesh_pending* pending);
/// 1 if rankmesh_pending_synchronize would return at once, else 0.
RANKMESH_C_API rankmesh_error rankmesh_pending_done(rankmesh_pending* pending, int* done);
/// Frees it; waits first if it has not been waited for.
RANKMESH_C_API void rankmesh_pending_free(rankmesh_pending* pending);
/// Frees it in a program that has failed and exits: stops using the buffers without waiting for peers, whose
/// calls return RANKMESH_LOST; on MPI the job ends.
RANKMESH_C_API void rankmesh_pending_abandon(rankmesh_pending* pending);

/// Reduces `in` element by element over all ranks into every rank's `out`; `count` elements each, the same on
/// all ranks. They may be one buffer.
RANKMESH_C_API rankmesh_error rankmesh_all_reduce(rankmesh_communicator* communicator, const void* in,
                                                  void* out, size_t count, rankmesh_dtype dtype,
                                                  rankmesh_reduction reduction, rankmesh_pending** pending);
/// Reduces `in` element by element over all ranks into the `out` of group rank `root`; `count` elements each,
/// the same on all ranks. They may be one buffer; the other ranks' `out` is ignored.
RANKMESH_C_API rankmesh_error rankmesh_reduce(rankmesh_communicator* communicator, const void* in, void* out,
                                              size_t count, rankmesh_dtype dtype,
                                              rankmesh_reduction reduction, int root,
                                              rankmesh_pending** pending);
/// Inclusive prefix reduction: rank i's `out` becomes the reduction of the `in` of ranks 0 to i; `count`
/// elements each, the same on all ranks. They may be one buffer.
RANKMESH_C_API rankmesh_error rankmesh_scan(rankmesh_communicator* communicator, const void* in, void* out,
                                            size_t count, rankmesh_dtype dtype, rankmesh_reduction reduction,
                                            rankmesh_pending** pending);
/// Reduces `in` element by element over all ranks, part i of the result into rank i's `out`; `out_count` is
/// the same on all ranks, `in` has size times as many elements. In place, `out` is part i of `in`, and the
/// other parts are undefined afterwards.
RANKMESH_C_API rankmesh_error rankmesh_reduce_scatter(rankmesh_communicator* communicator, const void* in,
                                                      void* out, size_t out_count, rankmesh_dtype dtype,
                                                      rankmesh_reduction reduction,
                                                      rankmesh_pending** pending);
/// Copies the buffer of group rank `root` into every rank's buffer; `count` is the same on all ranks.
RANKMESH_C_API rankmesh_error rankmesh_broadcast(rankmesh_communicator* communicator, void* buffer,
                                                 size_t count, rankmesh_dtype dtype, int root,
                                                 rankmesh_pending** pending);
/// Concatenates all ranks' `in` in group-rank order into every rank's `out`; `in_count` is the same on all
/// ranks, `out` has size times as many elements. In place, `in` is part i of `out` on rank i.
RANKMESH_C_API rankmesh_error rankmesh_all_gather(rankmesh_communicator* communicator, const void* in,
                                                  void* out, size_t in_count, rankmesh_dtype dtype,
                                                  rankmesh_pending** pending);
/// The same with inputs of different lengths: `counts[i]` is the length of rank i's `in`; all ranks pass the
/// same counts.
RANKMESH_C_API rankmesh_error rankmesh_all_gather_v(rankmesh_communicator* communicator, const void* in,
                                                    void* out, const size_t* counts, rankmesh_dtype dtype,
                                                    rankmesh_pending** pending);
/// Concatenates all ranks' `in` in group-rank order into the `out` of group rank `root`; `in_count` is the
/// same on all ranks, the root's `out` has size times as many elements, the other ranks' `out` is ignored.
RANKMESH_C_API rankmesh_error rankmesh_gather(rankmesh_communicator* communicator, const void* in, void* out,
                                              size_t in_count, rankmesh_dtype dtype, int root,
                                              rankmesh_pending** pending);
/// Copies part i of the `in` of group rank `root` into rank i's `out`; `out_count` is the same on all ranks,
/// the root's `in` has size times as many elements, the other ranks' `in` is ignored.
RANKMESH_C_API rankmesh_error rankmesh_scatter(rankmesh_communicator* communicator, const void* in, void* out,
                                               size_t out_count, rankmesh_dtype dtype, int root,
                                               rankmesh_pending** pending);
/// Copies part j of rank i's `in` into part i of rank j's `out`; a part has `part_count` elements, the same
/// on all ranks. They may be one buffer.
RANKMESH_C_API rankmesh_error rankmesh_all_to_all(rankmesh_communicator* communicator, const void* in,
                                                  void* out, size_t part_count, rankmesh_dtype dtype,
                                                  rankmesh_pending** pending);
/// The same with parts of different lengths: `in_counts[j]` elements go to group rank j, `out_counts[i]`
/// elements come from group rank i.
RANKMESH_C_API rankmesh_error rankmesh_all_to_all_v(rankmesh_communicator* communicator, const void* in,
                                                    const size_t* in_counts, void* out,
                                                    const size_t* out_counts, rankmesh_dtype dtype,
                                                    rankmesh_pending** pending);
/// Sends `in` to the rank `by` group ranks higher and receives `out` from the rank `by` lower, modulo the
/// size; `count` elements each, the same on all ranks. With an open edge a rank that has no sender leaves its
/// `out` unchanged. They may be one buffer.
RANKMESH_C_API rankmesh_error rankmesh_shift(rankmesh_communicator* communicator, const void* in, void* out,
                                             size_t count, rankmesh_dtype dtype, int by, rankmesh_edge edge,
                                             rankmesh_pending** pending);
/// Completes once every rank has called it.
RANKMESH_C_API rankmesh_error rankmesh_barrier(rankmesh_communicator* communicator,
                                               rankmesh_pending** pending);
/// The same, but on every engine rankmesh_error_ranks names, after a timeout, the ranks that have and have
/// not arrived.
RANKMESH_C_API rankmesh_error rankmesh_monitored_barrier(rankmesh_communicator* communicator,
                                                         rankmesh_pending** pending);

// --- messages between two ranks

/// Sends to group rank `to`, which calls rankmesh_recv with the same count and the same tag, from 0 to 16383.
RANKMESH_C_API rankmesh_error rankmesh_send(rankmesh_communicator* communicator, const void* in, size_t count,
                                            rankmesh_dtype dtype, int to, int tag,
                                            rankmesh_pending** pending);
/// Receives what group rank `from` sends, which must be as many elements with the same tag.
RANKMESH_C_API rankmesh_error rankmesh_recv(rankmesh_communicator* communicator, void* out, size_t count,
                                            rankmesh_dtype dtype, int from, int tag,
                                            rankmesh_pending** pending);
/// Sends to one rank while receiving from another, or the same, both with one tag.
RANKMESH_C_API rankmesh_error rankmesh_send_recv(rankmesh_communicator* communicator, const void* in,
                                                 size_t in_count, int to, void* out, size_t out_count,
                                                 int from, int tag, rankmesh_dtype dtype,
                                                 rankmesh_pending** pending);

/// One message of a batch: it sends `buffer` to group rank `peer` where `sends` is 1, else it receives it
/// from there.
typedef struct rankmesh_message {
    int sends;
    int peer;
    void* buffer;
    size_t count;
    rankmesh_dtype dtype;
    int tag;
} rankmesh_message;
/// Runs several messages as one operation, so that their order cannot deadlock; those between two ranks match
/// in the order of their tags. If one is invalid, none is sent.
RANKMESH_C_API rankmesh_error rankmesh_batch(rankmesh_communicator* communicator,
                                             const rankmesh_message* messages, size_t count,
                                             rankmesh_pending** pending);

#ifdef __cplusplus
}
#endif

#endif
