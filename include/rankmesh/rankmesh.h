// SPDX-License-Identifier: Apache-2.0
/// The C99 interface of rankmesh, for C and every language that can call C: meshes, worlds, join and
/// collectives.
///
/// Errors: A function that can fail returns RANKMESH_OK (0) or the kind of the error. rankmesh_error_text()
/// returns the text of the calling thread's last error. The last pointer receives the result, or NULL on
/// failure. A NULL in place of a required value is an error, never a crash.
///
/// Objects: Free each object once, in any order; NULL may be freed. The engine of a world ends after its last
/// member, communicator and pending operation are freed.
///
/// Texts: A text is written with its terminating zero, and `needed` is set to its size in bytes. A smaller
/// buffer is an error; call with NULL and 0 first to get the size. Lists of ranks work in the same way,
/// counted in ranks. A set of axes is a text of names, separated by commas, in any order: "dp,cp".
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

/// The error codes that functions return. Their numbers never change.
typedef int rankmesh_error;
enum {
    RANKMESH_OK = 0,
    RANKMESH_USAGE_ERROR = 1,     ///< the arguments are wrong: a NULL, an unknown axis, a bad size
    RANKMESH_DISAGREEMENT = 2,    ///< ranks passed different arguments where they must be equal
    RANKMESH_TIMEOUT = 3,         ///< the timeout expired before all ranks arrived
    RANKMESH_LOST = 4,            ///< peers are gone
    RANKMESH_ENGINE_FAILURE = 5,  ///< the engine reported an error
    RANKMESH_NOT_BUILT = 6,       ///< this build does not have the requested engine
    RANKMESH_OTHER_FAILURE = 7    ///< any other failure, such as out of memory
};

/// Returns the text of this thread's last error, or "" before the first. The text is valid until this
/// thread's next error.
RANKMESH_C_API const char* rankmesh_error_text(void);

/// The lists of ranks that an error can have.
typedef int rankmesh_error_list;
enum {
    RANKMESH_RANKS_DIFFERING = 0,  ///< of a disagreement: the ranks outside the largest set that agrees
    RANKMESH_RANKS_ARRIVED = 1,    ///< of a timeout; this list and the next are empty if not known
    RANKMESH_RANKS_MISSING = 2,    ///< of a timeout
    RANKMESH_RANKS_LOST = 3        ///< of lost peers
};
/// Returns the world ranks in one list of this thread's last error, and sets `*count` to their number. The
/// list is valid until this thread's next error. Returns NULL if the list is empty or `count` is NULL.
RANKMESH_C_API const int* rankmesh_error_ranks(rankmesh_error_list which, size_t* count);

// --- element types and reductions

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
    RANKMESH_BYTE = 9,  ///< a byte, for data without arithmetic, such as structs
    RANKMESH_F8E4M3 = 10,
    RANKMESH_F8E5M2 = 11,
    RANKMESH_F16 = 12,
    RANKMESH_BF16 = 13,
    RANKMESH_F32 = 14,
    RANKMESH_F64 = 15
};
/// Returns the bytes of one element, or 0 for an unknown type.
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
    RANKMESH_LOGICAL_XOR = 10,
    RANKMESH_REPRODUCIBLE_SUM = 11,  ///< floating-point types only: exact, then rounded once
    /// The least value with its index; of equal values the one with the lowest index. Each element is a
    /// `struct { T value; int64_t index; }`, where the dtype is that of T. Host engines only.
    RANKMESH_MIN_LOCATION = 12,
    RANKMESH_MAX_LOCATION = 13  ///< the same for the greatest value
};

/// What follows the last index of an axis or a group.
typedef int rankmesh_edge;
enum {
    RANKMESH_OPEN = 0,  ///< nothing
    RANKMESH_WRAP = 1   ///< the first index
};

/// The result in place of a rank if there is none: past an open edge, or outside a group.
#define RANKMESH_NO_RANK (-1)

// --- meshes: queries that need no communication

/// An ordered list of named axes, outermost first, that maps coordinates to ranks: `pp=4 dp=8 tp=8`.
/// Thread-safe.
typedef struct rankmesh_mesh rankmesh_mesh;

/// Reads `pp=4 dp=8 tp=8`, `pp=2:32 dp=4:8 @64`, or `dp=* tp=8` in a world of `world` ranks. Pass 0 for
/// `world` if no size is `*`.
RANKMESH_C_API rankmesh_error rankmesh_mesh_parse(const char* text, int world, rankmesh_mesh** mesh);
RANKMESH_C_API void rankmesh_mesh_free(rankmesh_mesh* mesh);
/// Writes the mesh in the notation that rankmesh_mesh_parse reads.
RANKMESH_C_API rankmesh_error rankmesh_mesh_text(const rankmesh_mesh* mesh, char* text, size_t size,
                                                 size_t* needed);
/// The number of ranks.
RANKMESH_C_API rankmesh_error rankmesh_mesh_size(const rankmesh_mesh* mesh, int* size);
/// The lowest rank.
RANKMESH_C_API rankmesh_error rankmesh_mesh_offset(const rankmesh_mesh* mesh, int* offset);
/// The highest rank plus 1: the size of the smallest world in which the mesh fits.
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
/// The rank at these indices, one index for each axis, outermost first.
RANKMESH_C_API rankmesh_error rankmesh_mesh_rank(const rankmesh_mesh* mesh, const int* indices, size_t count,
                                                 int* rank);
/// The index of `rank` on one axis.
RANKMESH_C_API rankmesh_error rankmesh_mesh_index(const rankmesh_mesh* mesh, int rank, const char* axis,
                                                  int* index);
/// The rank `by` steps along an axis; RANKMESH_NO_RANK past an open edge.
RANKMESH_C_API rankmesh_error rankmesh_mesh_neighbor(const rankmesh_mesh* mesh, int rank, const char* axis,
                                                     int by, rankmesh_edge edge, int* neighbor);

/// The ranks that differ from `rank` only along these axes, in mesh order. "" (no axis) gives a group of one.
RANKMESH_C_API rankmesh_error rankmesh_mesh_group(const rankmesh_mesh* mesh, int rank, const char* axes,
                                                  int* ranks, size_t size, size_t* needed);
/// The number of ranks of each group along these axes.
RANKMESH_C_API rankmesh_error rankmesh_mesh_group_size(const rankmesh_mesh* mesh, const char* axes,
                                                       int* size);
/// The rank at `group_rank` in the group of `rank`, without a list of the group.
RANKMESH_C_API rankmesh_error rankmesh_mesh_group_member(const rankmesh_mesh* mesh, int rank,
                                                         const char* axes, int group_rank, int* member);
/// The group rank of `member` in the group of `rank`; RANKMESH_NO_RANK if `member` is not in the group.
RANKMESH_C_API rankmesh_error rankmesh_mesh_group_rank(const rankmesh_mesh* mesh, int rank, const char* axes,
                                                       int member, int* group_rank);
/// The ranks of all groups along these axes, one group after another, in the order of their first ranks.
RANKMESH_C_API rankmesh_error rankmesh_mesh_partition(const rankmesh_mesh* mesh, const char* axes, int* ranks,
                                                      size_t size, size_t* needed);
/// The number of groups along these axes.
RANKMESH_C_API rankmesh_error rankmesh_mesh_partition_size(const rankmesh_mesh* mesh, const char* axes,
                                                           int* size);
/// The first rank of group number `group` along these axes. Use it to query the group.
RANKMESH_C_API rankmesh_error rankmesh_mesh_partition_first(const rankmesh_mesh* mesh, const char* axes,
                                                            int group, int* rank);

// --- worlds

/// The ranks of a job, and this process's access to them.
typedef struct rankmesh_world rankmesh_world;

/// The options of a world; 0 or NULL selects the default.
typedef struct rankmesh_world_options {
    /// "threads", "mpi" or "gloo"; NULL: from RANKMESH_ENGINE or the launcher.
    const char* engine;
    /// The timeout of join, and of blocking calls on meshes without their own timeout, in seconds; 0:
    /// RANKMESH_TIMEOUT, else 30 minutes.
    double timeout_seconds;
    /// 1 if several threads of this process will communicate.
    int multithreaded;
    /// 1: the ranks of a group compare each call before its data moves; -1: they do not; 0: from
    /// RANKMESH_CHECK.
    int checked;
    /// Called with one line for each event of the world and its members, on the thread of the event.
    void (*log)(const char* line, void* user);
    void* log_user;
} rankmesh_world_options;

/// The world in which this process was started: MPI under mpirun; Gloo if a launcher or RANKMESH_STORE says
/// how processes find each other; a single rank without a launcher. `options` may be NULL.
RANKMESH_C_API rankmesh_error rankmesh_world_from_environment(const rankmesh_world_options* options,
                                                              rankmesh_world** world);
/// Runs `program` as `size` ranks of one world, each a thread of this process. Returns when all ranks have
/// returned. `options` may be NULL.
///
/// `user` is passed to the program, which must not free the world. A program that returns a number other than
/// 0 has failed: its peers' calls return RANKMESH_LOST, and this function returns the error of the rank that
/// failed first.
RANKMESH_C_API rankmesh_error rankmesh_threads_run(int size,
                                                   int (*program)(rankmesh_world* world, void* user),
                                                   void* user, const rankmesh_world_options* options);
/// A world of the ranks of `host`, each with a device. Its communicators use device memory and NCCL. `device`
/// is the device's number; -1: the local rank. Collective over `host`.
RANKMESH_C_API rankmesh_error rankmesh_world_nccl(const rankmesh_world* host, int device,
                                                  rankmesh_world** world);
/// A new world of these ranks, in that order. Exactly these ranks call it.
RANKMESH_C_API rankmesh_error rankmesh_world_sub(rankmesh_world* world, const int* ranks, size_t count,
                                                 rankmesh_world** sub);
/// A new world of the surviving ranks. Survivors are the ranks that get RANKMESH_LOST and call this within
/// `grace_seconds` of each other. Supported on Gloo.
RANKMESH_C_API rankmesh_error rankmesh_world_survivors(rankmesh_world* world, double grace_seconds,
                                                       rankmesh_world** survivors);
/// A new world of these ranks and of up to `most` processes that wait in rankmesh_world_rejoin. All ranks
/// call it. New processes replace lost ranks. Returns when `most` processes have arrived, or after
/// `timeout_seconds` with the processes that have arrived; RANKMESH_TIMEOUT if none has. This world stays
/// usable. Supported on Gloo with a store, on threads, and on NCCL over them.
RANKMESH_C_API rankmesh_error rankmesh_world_grow(rankmesh_world* world, int most, double timeout_seconds,
                                                  rankmesh_world** larger);
/// Waits until the ranks of a running job call rankmesh_world_grow, and enters their new world.
/// RANKMESH_STORE and RANKMESH_JOB identify the job; RANK, if set, is the rank to replace. Waits up to the
/// timeout of `options`, which may be NULL.
RANKMESH_C_API rankmesh_error rankmesh_world_rejoin(const rankmesh_world_options* options,
                                                    rankmesh_world** world);
RANKMESH_C_API void rankmesh_world_free(rankmesh_world* world);
/// Frees the world of a program that has failed and will exit. Does not wait for peers, whose calls return
/// RANKMESH_LOST; on MPI the job ends. A program of rankmesh_threads_run must instead return a number other
/// than 0.
RANKMESH_C_API void rankmesh_world_abandon(rankmesh_world* world);

RANKMESH_C_API rankmesh_error rankmesh_world_rank(const rankmesh_world* world, int* rank);
RANKMESH_C_API rankmesh_error rankmesh_world_size(const rankmesh_world* world, int* size);
/// The name of the engine: "threads", "mpi" or "gloo".
RANKMESH_C_API rankmesh_error rankmesh_world_engine(const rankmesh_world* world, char* engine, size_t size,
                                                    size_t* needed);
/// The name of this process's host.
RANKMESH_C_API rankmesh_error rankmesh_world_host(const rankmesh_world* world, char* host, size_t size,
                                                  size_t* needed);
/// This rank's index among the ranks on its host, from 0.
RANKMESH_C_API rankmesh_error rankmesh_world_local_rank(const rankmesh_world* world, int* rank);
/// The number of ranks on this rank's host.
RANKMESH_C_API rankmesh_error rankmesh_world_local_size(const rankmesh_world* world, int* size);

// --- plans and members

/// A set of axes that gets a communicator.
typedef struct rankmesh_axes {
    const char* axes;        ///< "dp,cp"
    const char* separate;    ///< if not NULL: a separate channel, found by this name
    double timeout_seconds;  ///< of its blocking calls; 0: the mesh's
} rankmesh_axes;

/// Some ranks of each group along axis `of`, by index; negative indices count from the end. Found by the name
/// `as`.
typedef struct rankmesh_pick {
    const char* of;
    const int* at;
    size_t at_count;
    const char* as;
} rankmesh_pick;

/// One mesh of a plan, and the communicators that it gets; 0 or NULL selects the default.
typedef struct rankmesh_declaration {
    /// The name for rankmesh_member_in; may be NULL in a plan of one mesh.
    const char* name;
    /// `pp=2 dp=* tp=2`; `*` is computed from the number of ranks.
    const char* mesh;
    /// Sets of axes that get a communicator, in addition to the single axes.
    const rankmesh_axes* over;
    size_t over_count;
    const rankmesh_pick* picks;
    size_t pick_count;
    /// The name of the group of this mesh's ranks on one host; used like an axis. NULL: no such group.
    const char* local;
    /// The single axes that get a communicator, "dp,tp"; NULL: all axes.
    const char* axes;
    /// The rank at each position, for layouts that strides cannot express; NULL: from the strides.
    const int* placed;
    size_t placed_count;
    /// 1 if the mesh may omit ranks of the world.
    int partial;
    /// 1: join connects nothing; rankmesh_member_prepare connects each set.
    int lazy;
    /// The timeout of every blocking call on this mesh; 0: the timeout of the world.
    double timeout_seconds;
} rankmesh_declaration;

/// This process's view of a plan, or of one of its meshes: its coordinate, neighbours and communicators.
typedef struct rankmesh_member rankmesh_member;
/// A connected group of ranks that runs collectives and messages. Only one thread at a time may use it.
typedef struct rankmesh_communicator rankmesh_communicator;

/// Creates this process's communicators for a plan of `count` meshes over one world. Every rank calls it with
/// the same plan, which is first compared across all ranks.
RANKMESH_C_API rankmesh_error rankmesh_world_join(rankmesh_world* world, const rankmesh_declaration* plan,
                                                  size_t count, rankmesh_member** member);
RANKMESH_C_API void rankmesh_member_free(rankmesh_member* member);
/// The view of the mesh of that name. A plan of one mesh does not need it.
RANKMESH_C_API rankmesh_error rankmesh_member_in(const rankmesh_member* member, const char* mesh,
                                                 rankmesh_member** place);
/// The mesh with `*` resolved. If the declaration has `placed`, the mesh's ranks are positions.
RANKMESH_C_API rankmesh_error rankmesh_member_mesh(const rankmesh_member* member, rankmesh_mesh** mesh);
/// 1 if this rank is in the mesh, else 0. If 0, the functions below return errors.
RANKMESH_C_API rankmesh_error rankmesh_member_inside(const rankmesh_member* member, int* inside);
/// This rank's index on every axis, outermost first.
RANKMESH_C_API rankmesh_error rankmesh_member_coord(const rankmesh_member* member, int* indices, size_t size,
                                                    size_t* needed);
/// This rank's index on an axis, or among the declared local ranks.
RANKMESH_C_API rankmesh_error rankmesh_member_at(const rankmesh_member* member, const char* axis, int* index);
/// The world rank `by` steps along an axis; RANKMESH_NO_RANK past an open edge.
RANKMESH_C_API rankmesh_error rankmesh_member_neighbor(const rankmesh_member* member, const char* axis,
                                                       int by, rankmesh_edge edge, int* neighbor);
/// The world rank at these indices of the mesh, one index for each axis. Also for ranks outside the mesh.
RANKMESH_C_API rankmesh_error rankmesh_member_rank_at(const rankmesh_member* member, const int* indices,
                                                      size_t count, int* rank);
/// `[pp=1 dp=0 tp=3]`: the prefix of this rank's log lines.
RANKMESH_C_API rankmesh_error rankmesh_member_prefix(const rankmesh_member* member, char* prefix, size_t size,
                                                     size_t* needed);
/// The communicator of a single axis, of a declared set in any order, or of a declared pick, separate set or
/// local ranks by name.
RANKMESH_C_API rankmesh_error rankmesh_member_on(const rankmesh_member* member, const char* axes,
                                                 rankmesh_communicator** communicator);
/// Like rankmesh_member_on, but NULL without an error if this rank has no such communicator.
RANKMESH_C_API rankmesh_error rankmesh_member_find(const rankmesh_member* member, const char* axes,
                                                   rankmesh_communicator** communicator);
/// Connects a set that a lazy declaration deferred. Collective: every rank of the mesh calls it with the same
/// axes.
RANKMESH_C_API rankmesh_error rankmesh_member_prepare(const rankmesh_member* member, const char* axes);
/// Options of a group that is made at run time; 0 or NULL selects the default.
typedef struct rankmesh_group_options {
    /// The name in errors and records, valid like the name of an axis; NULL: the group's ranks or its color.
    const char* name;
    /// The timeout of blocking calls; 0: the timeout of the mesh.
    double timeout_seconds;
} rankmesh_group_options;

/// A communicator of these world ranks, in that order. Exactly these ranks call it; no other rank takes part.
/// They first compare their lists. `options` may be NULL.
RANKMESH_C_API rankmesh_error rankmesh_member_group(const rankmesh_member* member, const int* ranks,
                                                    size_t count, const rankmesh_group_options* options,
                                                    rankmesh_communicator** communicator);
/// The communicator of the ranks of `over` with the same color, ordered by key, then as in `over`; like
/// MPI_Comm_split. Collective over `over`; NULL: over the world. A rank that passes NULL for `color` gets
/// NULL without an error. `options` may be NULL.
RANKMESH_C_API rankmesh_error rankmesh_member_split(const rankmesh_member* member,
                                                    const rankmesh_communicator* over, const int* color,
                                                    int key, const rankmesh_group_options* options,
                                                    rankmesh_communicator** communicator);
/// Releases the resources of an idle communicator of a declared set; NULL: of all communicators of the mesh
/// or plan. Collective over its ranks. Until rankmesh_member_resume, calls on it, and on communicators that
/// share its connections, return errors.
RANKMESH_C_API rankmesh_error rankmesh_member_suspend(const rankmesh_member* member, const char* axes);
/// Restores what rankmesh_member_suspend released. Must be called with the same `axes`.
RANKMESH_C_API rankmesh_error rankmesh_member_resume(const rankmesh_member* member, const char* axes);

/// The resources of all communicators of this process, of the plan and of groups made at run time.
typedef struct rankmesh_usage {
    /// Communicators of two or more ranks. A communicator that several sets of axes share counts once.
    int communicators;
    /// The number of suspended communicators.
    int suspended;
    /// Connections to other processes.
    int connections;
    /// Open files of this process.
    int descriptors;
} rankmesh_usage;

/// The resources that this process's communicators hold now. Does not communicate.
RANKMESH_C_API rankmesh_error rankmesh_member_usage(const rankmesh_member* member, rankmesh_usage* usage);
/// The resources of one communicator of this member.
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
/// The group rank of a world rank; RANKMESH_NO_RANK if the group does not contain that rank.
RANKMESH_C_API rankmesh_error rankmesh_communicator_group_rank(const rankmesh_communicator* communicator,
                                                               int world_rank, int* group_rank);
/// A description for messages: `'dp,cp' of mesh 'dense'`.
RANKMESH_C_API rankmesh_error rankmesh_communicator_label(const rankmesh_communicator* communicator,
                                                          char* label, size_t size, size_t* needed);
/// A handle of the same channel with another timeout for its blocking calls.
RANKMESH_C_API rankmesh_error rankmesh_communicator_within(const rankmesh_communicator* communicator,
                                                           double timeout_seconds,
                                                           rankmesh_communicator** own);
/// 1 if buffers must be on a device, 0 if on the host.
RANKMESH_C_API rankmesh_error rankmesh_communicator_is_on_device(const rankmesh_communicator* communicator,
                                                                 int* is_on_device);
/// The same group on the host engine, for buffers in host memory.
RANKMESH_C_API rankmesh_error rankmesh_communicator_host(const rankmesh_communicator* communicator,
                                                         rankmesh_communicator** host);
/// A handle of the same channel that orders its calls on a stream of the device, a `cudaStream_t`.
RANKMESH_C_API rankmesh_error rankmesh_communicator_on_stream(const rankmesh_communicator* communicator,
                                                              void* stream, rankmesh_communicator** own);

/// Where the elements of a strided buffer lie, such as a face of an array: the lengths of its dimensions and
/// the distances between neighbours in elements, outermost dimension first. Distances may be negative.
typedef struct rankmesh_strides {
    size_t dimensions;
    const size_t* extents;
    const ptrdiff_t* strides;
} rankmesh_strides;
/// A handle of the same channel whose operations read inputs and write outputs that are strided; NULL: that
/// lie one after the other. broadcast has one buffer, which is the output, and sums have an input.
///
/// The counts of an operation are the products of the extents. Elements are copied through memory of the
/// communicator. Written elements must not overlap. Batches take strides for each message instead, and
/// rankmesh_sparse_all_to_all takes none.
RANKMESH_C_API rankmesh_error rankmesh_communicator_strided(const rankmesh_communicator* communicator,
                                                            const rankmesh_strides* in,
                                                            const rankmesh_strides* out,
                                                            rankmesh_communicator** own);

// --- collectives
//
// Every rank of the group calls the same collectives in the same order, with the same counts. Counts are in
// elements of `dtype`. Buffers must be where rankmesh_communicator_is_on_device says. A buffer may be NULL if
// nothing is read or written: for a count of 0, and for buffers that only the root needs.
//
// A collective blocks if its last argument, `pending`, is NULL. Otherwise it returns at once and sets
// `*pending`, and the buffers belong to the operation until rankmesh_pending_wait has returned.

/// A started operation. Its buffers must not be used or freed until rankmesh_pending_wait has returned.
typedef struct rankmesh_pending rankmesh_pending;

/// Waits until the operation is complete and its buffers may be used again. A second call does nothing. On a
/// device it returns at once; later work on the stream runs after the operation.
RANKMESH_C_API rankmesh_error rankmesh_pending_wait(rankmesh_pending* pending);
/// Like rankmesh_pending_wait, but on a device blocks this thread until the operation is complete, even after
/// rankmesh_pending_wait.
RANKMESH_C_API rankmesh_error rankmesh_pending_synchronize(rankmesh_pending* pending);
/// Sets `sender` to the group rank whose message a started rankmesh_recv from any rank has received; after
/// rankmesh_pending_wait.
RANKMESH_C_API rankmesh_error rankmesh_pending_sender(const rankmesh_pending* pending, int* sender);
/// 1 if rankmesh_pending_synchronize would return at once, else 0.
RANKMESH_C_API rankmesh_error rankmesh_pending_done(rankmesh_pending* pending, int* done);
/// Waits until every one of `count` operations is complete. NULL stands for none. If operations fail, returns
/// the error of the first of them after it has waited for the others.
RANKMESH_C_API rankmesh_error rankmesh_pending_wait_all(rankmesh_pending* const* pendings, size_t count);
/// Waits until one of `count` operations is complete, and sets `index` to its index. Ignores NULL and
/// operations that were waited for; sets `index` to `count` if no other is left.
RANKMESH_C_API rankmesh_error rankmesh_pending_wait_any(rankmesh_pending* const* pendings, size_t count,
                                                        size_t* index);
/// Frees the operation. First waits for it if rankmesh_pending_wait was not called.
RANKMESH_C_API void rankmesh_pending_free(rankmesh_pending* pending);
/// Frees the operation in a program that has failed and will exit. Stops using the buffers and does not wait
/// for peers, whose calls return RANKMESH_LOST; on MPI the job ends.
RANKMESH_C_API void rankmesh_pending_abandon(rankmesh_pending* pending);

/// Reduces `in` element by element over all ranks into every rank's `out`. Both have `count` elements, the
/// same number on all ranks. `in` and `out` may be the same buffer.
RANKMESH_C_API rankmesh_error rankmesh_all_reduce(rankmesh_communicator* communicator, const void* in,
                                                  void* out, size_t count, rankmesh_dtype dtype,
                                                  rankmesh_reduction reduction, rankmesh_pending** pending);
/// Reduces `in` element by element over all ranks into the `out` of group rank `root`. Both have `count`
/// elements, the same number on all ranks. `in` and `out` may be the same buffer; the other ranks' `out` is
/// ignored.
RANKMESH_C_API rankmesh_error rankmesh_reduce(rankmesh_communicator* communicator, const void* in, void* out,
                                              size_t count, rankmesh_dtype dtype,
                                              rankmesh_reduction reduction, int root,
                                              rankmesh_pending** pending);
/// Inclusive prefix reduction: reduces the `in` of ranks 0 to i into the `out` of rank i. Both have `count`
/// elements, the same number on all ranks. `in` and `out` may be the same buffer.
RANKMESH_C_API rankmesh_error rankmesh_scan(rankmesh_communicator* communicator, const void* in, void* out,
                                            size_t count, rankmesh_dtype dtype, rankmesh_reduction reduction,
                                            rankmesh_pending** pending);
/// Reduces the `in` of ranks 0 to i - 1 into the `out` of rank i. Rank 0's `out` becomes the reduction of
/// nothing, such as 0 for a sum; it is unchanged for locations.
RANKMESH_C_API rankmesh_error rankmesh_exclusive_scan(rankmesh_communicator* communicator, const void* in,
                                                      void* out, size_t count, rankmesh_dtype dtype,
                                                      rankmesh_reduction reduction,
                                                      rankmesh_pending** pending);
/// Sets `*sum` to the sum of all elements of all ranks' `in`, of a floating-point type: exact, then rounded
/// once to that type. The same bits on every engine, and however the elements are spread over the ranks.
RANKMESH_C_API rankmesh_error rankmesh_reproducible_sum(rankmesh_communicator* communicator, const void* in,
                                                        size_t count, rankmesh_dtype dtype, double* sum);
/// Sets `*sum` to the scalar product of all ranks' `x` and `y` in the same way; each product is rounded to
/// double.
RANKMESH_C_API rankmesh_error rankmesh_reproducible_dot(rankmesh_communicator* communicator, const void* x,
                                                        const void* y, size_t count, rankmesh_dtype dtype,
                                                        double* sum);
/// Reduces `in` element by element over all ranks and writes part i of the result into rank i's `out`.
/// `out_count` is the same on all ranks; `in` has size * `out_count` elements. In place: `out` is part i of
/// `in`; the other parts are undefined afterwards.
RANKMESH_C_API rankmesh_error rankmesh_reduce_scatter(rankmesh_communicator* communicator, const void* in,
                                                      void* out, size_t out_count, rankmesh_dtype dtype,
                                                      rankmesh_reduction reduction,
                                                      rankmesh_pending** pending);
/// Copies the buffer of group rank `root` into every rank's buffer. `count` is the same on all ranks.
RANKMESH_C_API rankmesh_error rankmesh_broadcast(rankmesh_communicator* communicator, void* buffer,
                                                 size_t count, rankmesh_dtype dtype, int root,
                                                 rankmesh_pending** pending);
/// Concatenates all ranks' `in` in group-rank order into every rank's `out`. `in_count` is the same on all
/// ranks; `out` has size * `in_count` elements. In place: `in` is part i of `out` on rank i.
RANKMESH_C_API rankmesh_error rankmesh_all_gather(rankmesh_communicator* communicator, const void* in,
                                                  void* out, size_t in_count, rankmesh_dtype dtype,
                                                  rankmesh_pending** pending);
/// all_gather with inputs of different lengths: `counts[i]` is the length of rank i's `in`. All ranks pass
/// the same counts.
RANKMESH_C_API rankmesh_error rankmesh_all_gather_v(rankmesh_communicator* communicator, const void* in,
                                                    void* out, const size_t* counts, rankmesh_dtype dtype,
                                                    rankmesh_pending** pending);
/// Concatenates all ranks' `in` in group-rank order into the `out` of group rank `root`. `in_count` is the
/// same on all ranks; the root's `out` has size * `in_count` elements; the other ranks' `out` is ignored.
RANKMESH_C_API rankmesh_error rankmesh_gather(rankmesh_communicator* communicator, const void* in, void* out,
                                              size_t in_count, rankmesh_dtype dtype, int root,
                                              rankmesh_pending** pending);
/// Copies part i of the `in` of group rank `root` into rank i's `out`. `out_count` is the same on all ranks;
/// the root's `in` has size * `out_count` elements; the other ranks' `in` is ignored.
RANKMESH_C_API rankmesh_error rankmesh_scatter(rankmesh_communicator* communicator, const void* in, void* out,
                                               size_t out_count, rankmesh_dtype dtype, int root,
                                               rankmesh_pending** pending);
/// gather with inputs of different lengths. At the root `counts[i]` is the length of rank i's `in`; the other
/// ranks' `out` and `counts` are ignored.
RANKMESH_C_API rankmesh_error rankmesh_gather_v(rankmesh_communicator* communicator, const void* in,
                                                size_t in_count, void* out, const size_t* counts,
                                                rankmesh_dtype dtype, int root, rankmesh_pending** pending);
/// scatter with parts of different lengths. At the root `counts[i]` is the length of rank i's `out`; the
/// other ranks' `in` and `counts` are ignored.
RANKMESH_C_API rankmesh_error rankmesh_scatter_v(rankmesh_communicator* communicator, const void* in,
                                                 const size_t* counts, void* out, size_t out_count,
                                                 rankmesh_dtype dtype, int root, rankmesh_pending** pending);
/// Copies part j of rank i's `in` into part i of rank j's `out`. A part has `part_count` elements, the same
/// number on all ranks. `in` and `out` may be the same buffer.
RANKMESH_C_API rankmesh_error rankmesh_all_to_all(rankmesh_communicator* communicator, const void* in,
                                                  void* out, size_t part_count, rankmesh_dtype dtype,
                                                  rankmesh_pending** pending);
/// all_to_all with parts of different lengths: `in_counts[j]` elements go to group rank j, and
/// `out_counts[i]` elements come from group rank i.
RANKMESH_C_API rankmesh_error rankmesh_all_to_all_v(rankmesh_communicator* communicator, const void* in,
                                                    const size_t* in_counts, void* out,
                                                    const size_t* out_counts, rankmesh_dtype dtype,
                                                    rankmesh_pending** pending);
/// Sends `in` to the rank `by` group ranks higher and receives `out` from the rank `by` lower, modulo the
/// size. Both have `count` elements, the same number on all ranks. With an open edge, a rank without a sender
/// leaves its `out` unchanged. `in` and `out` may be the same buffer.
RANKMESH_C_API rankmesh_error rankmesh_shift(rankmesh_communicator* communicator, const void* in, void* out,
                                             size_t count, rankmesh_dtype dtype, int by, rankmesh_edge edge,
                                             rankmesh_pending** pending);
/// Completes when every rank has called it.
RANKMESH_C_API rankmesh_error rankmesh_barrier(rankmesh_communicator* communicator,
                                               rankmesh_pending** pending);
/// Like rankmesh_barrier, but after a timeout rankmesh_error_ranks returns the ranks that have and have not
/// arrived, on every engine.
RANKMESH_C_API rankmesh_error rankmesh_monitored_barrier(rankmesh_communicator* communicator,
                                                         rankmesh_pending** pending);

// --- messages between two ranks

/// Sends `in` to group rank `to`, which must call rankmesh_recv with the same count and tag. A tag is
/// a number from 0 to 16383.
RANKMESH_C_API rankmesh_error rankmesh_send(rankmesh_communicator* communicator, const void* in, size_t count,
                                            rankmesh_dtype dtype, int to, int tag,
                                            rankmesh_pending** pending);
/// In place of a group rank: any other rank of the group.
#define RANKMESH_ANY_RANK (-1)
/// Receives a message of group rank `from`, which must have the same count and tag.
///
/// From RANKMESH_ANY_RANK, of each rank only the next message is considered, and only if it has this tag.
/// `sender` is set to its group rank unless `sender` is NULL. With `pending`, rankmesh_pending_sender returns
/// it.
RANKMESH_C_API rankmesh_error rankmesh_recv(rankmesh_communicator* communicator, void* out, size_t count,
                                            rankmesh_dtype dtype, int from, int tag, int* sender,
                                            rankmesh_pending** pending);
/// Waits until group rank `from`, or RANKMESH_ANY_RANK, has sent a message with this tag that this rank would
/// receive next. Sets `sender` to its group rank and `bytes` to its length, and does not receive it.
RANKMESH_C_API rankmesh_error rankmesh_probe(rankmesh_communicator* communicator, int from, int tag,
                                             int* sender, size_t* bytes);
/// Like rankmesh_probe, but sets `found` to 0 at once if there is no such message, else to 1.
RANKMESH_C_API rankmesh_error rankmesh_try_probe(rankmesh_communicator* communicator, int from, int tag,
                                                 int* found, int* sender, size_t* bytes);
/// Sends to one rank and receives from another, or from the same, at the same time and with one tag.
RANKMESH_C_API rankmesh_error rankmesh_send_recv(rankmesh_communicator* communicator, const void* in,
                                                 size_t in_count, int to, void* out, size_t out_count,
                                                 int from, int tag, rankmesh_dtype dtype,
                                                 rankmesh_pending** pending);

/// What rankmesh_sparse_all_to_all has received, ordered by sender.
typedef struct rankmesh_received rankmesh_received;
/// Sends `messages` messages: message i has `counts[i]` elements from `in[i]` on and goes to group rank
/// `peers[i]`. No rank knows who sends to it, nor how much. Every rank of the group calls it, with the same
/// `dtype`. The buffers are free when it returns. It has no started variant.
RANKMESH_C_API rankmesh_error rankmesh_sparse_all_to_all(rankmesh_communicator* communicator,
                                                         const int* peers, const void* const* in,
                                                         const size_t* counts, size_t messages,
                                                         rankmesh_dtype dtype, rankmesh_received** received);
/// Sets `count` to the number of messages.
RANKMESH_C_API rankmesh_error rankmesh_received_count(const rankmesh_received* received, size_t* count);
/// Sets `from` to the group rank of the sender of message `index`, `data` to its elements and `count` to
/// their number. The elements live until rankmesh_received_free.
RANKMESH_C_API rankmesh_error rankmesh_received_message(const rankmesh_received* received, size_t index,
                                                        int* from, const void** data, size_t* count);
RANKMESH_C_API void rankmesh_received_free(rankmesh_received* received);

/// One message of a batch. Sends `buffer` to group rank `peer` if `sends` is 1, else receives `buffer` from
/// `peer`.
typedef struct rankmesh_message {
    int sends;
    int peer;
    void* buffer;
    size_t count;
    rankmesh_dtype dtype;
    int tag;
    /// Where the elements lie, whose number is `count`; NULL: one after the other. Elements are copied through
    /// memory of the communicator. Received elements must not overlap.
    const rankmesh_strides* strides;
} rankmesh_message;
/// Runs several messages as one operation; their order cannot deadlock. Messages between two ranks match in
/// the order of their tags. If one message is invalid, none is sent.
RANKMESH_C_API rankmesh_error rankmesh_batch(rankmesh_communicator* communicator,
                                             const rankmesh_message* messages, size_t count,
                                             rankmesh_pending** pending);

#ifdef __cplusplus
}
#endif

#endif
