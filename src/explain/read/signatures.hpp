// SPDX-License-Identifier: Apache-2.0
// The lines of logs that `explain` knows, by the source that writes them.
#pragma once

#include <cstdint>
#include <string_view>

namespace rankmesh::of_log {

/// What a line of a log is about. The first four are the reasons of a record.
enum class Says : std::uint8_t {
    timeout,  ///< a rank waited for others, perhaps in {op}, call {seq}, and perhaps {missing} did not come
    lost,     ///< a rank lost others
    ended,    ///< processes ended: {ranks}, or the rank of an earlier line
    error,    ///< of a rank
    raised,   ///< an exception, whose name ends with the pattern
    status,   ///< the calls of a rank on a group: {enqueued}, {completed}, perhaps {seq}, the one that timed
              ///< out
    fault,    ///< of a device, a network or the memory of {host}
    remark,   ///< about a host
    place,    ///< {rank}, {host} or {group} of the lines that follow
    root,     ///< the launcher says that the lines that follow are about the first failure
    header,   ///< what is true of the ranks and processes that the next lines list
    listed    ///< {ranks} or a process on {host} in a list
};

/// A line has the literal parts of `pattern` in this order, and fields between them; {s} may be empty.
/// `words` are what it says; empty: the line from the pattern on.
struct Signature {
    std::string_view pattern;
    Says says;
    std::string_view words = {};
};

using enum Says;

constexpr std::string_view watchdog = "NCCL's watchdog saw a call time out";
constexpr std::string_view differ = "the collectives of ranks differ";
constexpr std::string_view killed = "was killed by signal {signal}";
constexpr std::string_view exited = "exited with code {code}";
constexpr std::string_view no_heartbeat = "no longer sends heartbeats to JAX's coordinator";
constexpr std::string_view store_ended = "the store of PyTorch has ended, as also at the end of a job";

/// Of several rows that fit a line, the first counts. A rank is named by {rank} or stands before the pattern.
constexpr Signature signatures[] = {
    // PyTorch's ProcessGroupNCCL.cpp and its copies: 2.1 and later, 2.0, 1.x; work is WorkNCCL, WorkXCCL, ...
    {"Watchdog caught collective operation timeout: {_}(SeqNum={seq}, OpType={op}, NumelIn={in}, "
     "NumelOut={out}, ",
     timeout, watchdog},
    {"Watchdog caught collective operation timeout: {_}(SeqNum={seq}, OpType={op}, ", timeout, watchdog},
    {"Watchdog caught collective operation timeout: ", timeout, watchdog},
    // The same file, of the group that the line names: 2.6 and later, with started work, 2.2 to 2.5, on a
    // dump.
    {"work sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}",
     status},
    {"work sequence id: {seq} PG status: last enqueued work: {enqueued}, last started work: {_}, last "
     "completed work: {completed}",
     status},
    {"work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}", status},
    {"Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}", status},
    {"watchdog got stuck for {n} seconds", timeout,
     "its watchdog was stuck for {n} s: a call of CUDA or NCCL, or the GIL, did not return"},
    // PyTorch's ProcessGroupWrapper.cpp, with TORCH_DISTRIBUTED_DEBUG=DETAIL; each rank names itself first.
    {"Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber={before}, OpType={op}, "
     "TensorShape=[{in}]",
     timeout, differ},
    {"Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber={before}OpType={op})", timeout,
     differ},
    // PyTorch's ProcessGroupGloo.cpp.
    {"Rank{s} {missing} failed to pass monitoredBarrier in {n} ms", timeout,
     "rank{s} {missing} failed to pass monitoredBarrier within {n} ms"},
    {"successfully reached monitoredBarrier, but received errors", lost, "lost rank 0 in monitored_barrier"},
    // Gloo's pair.cc and unbound_buffer.cc; PyTorch's TCPStore.
    {"Failed to check the \"should dump\" flag on TCPStore", remark, store_ended},
    {" failed on SocketImpl({_}, remote={_}): failed to recv, got 0 bytes", remark, store_ended},
    {"sendBytes failed on SocketImpl({_}): Broken pipe", remark, store_ended},
    {"failed to recv, got 0 bytes", lost, "lost the store of PyTorch, which rank 0 serves"},
    {"Timed out waiting {n}ms for {_} operation to complete", timeout},
    {"Connection closed by peer", lost},
    {"Connection reset by peer", lost},
    {"wait timeout after {n}ms, keys: {keys}", timeout},
    {"Timed out after {n} seconds waiting for clients. {text}", timeout},
    {"The client socket has timed out after {_} while trying to connect to ({text})", error},
    {"The client socket has failed to connect to any network address of ({text})", error},
    {"Broken pipe", lost},
    // NCCL's socket.cc, ncclGetErrorString, net_ib, checks.h and debug.cc; PyTorch's text of ncclRemoteError.
    {"Connection closed by remote peer", lost},
    {"remote process exited or there was a network error", lost},
    {"possibly due to a network error or a remote process exiting prematurely", lost},
    {"Got completion from peer {_} with status={text}", fault},
    {"Got completion from peer {_} with error {text}", fault},
    {"NCCL WARN Cuda failure {text}", fault},
    {"NCCL WARN {text}", remark, "NCCL warns: {text}"},
    // PyTorch's CUDACachingAllocator.cpp and CUDAException.cpp.
    {"CUDA out of memory.", error},
    {"CUDA error: {text}", error},
    // torchrun's summary.
    {"Root Cause (first observed failure)", root},
    {"  host      : {host}", place},
    {"  rank      : {rank} (local_rank: ", place},
    {"  exitcode  : -{signal} (pid: {pid})", ended, killed},
    {"  exitcode  : {code} (pid: {pid})", ended, exited},
    // What it says first, of a process whose rank the summary names.
    {"failed (exitcode: -{signal}) local_rank: {n} (pid: {pid}) of binary: ", ended,
     "of local rank {n} was killed by signal {signal}"},
    {"failed (exitcode: {code}) local_rank: {n} (pid: {pid}) of binary: ", ended,
     "of local rank {n} exited with code {code}"},
    // DeepSpeed's launcher.
    {"'--local_rank={n}', {_}] exits with return code = -{signal}", ended,
     "of local rank {n} was killed by signal {signal}"},
    {"'--local_rank={n}', {_}] exits with return code = {code}", ended,
     "of local rank {n} exited with code {code}"},
    // Ray's RayTaskError, core_worker and node_manager.cc.
    {"Worker IP address: {host} Worker port: {_} Worker PID: {pid} Worker exit type: {text} Worker exit "
     "detail",
     ended, "of Ray ended: {text}"},
    {"node_manager.cc:{_}: 0 Workers (tasks / actors) killed due to memory pressure (OOM), {n} Workers "
     "crashed",
     remark, "Ray says that workers crashed: {n}"},
    {"node_manager.cc:{_}: {n} Workers (tasks / actors) killed due to memory pressure (OOM)", fault,
     "memory ran out: Ray killed workers: {n}"},
    {"RayTaskError({name}): ray::{_} (pid={_}, ip={host}, {_})", error, "{name} in an actor of Ray"},
    // Slurm's srun and slurmstepd.
    {"srun: error: {host}: task{s} {ranks}: Exited with exit code {code}", ended, exited},
    {"srun: error: {host}: task{s} {ranks}: {signal}", ended, "ended: {signal}"},
    {"srun: error: Node failure on {host}", fault, "Slurm says that the node failed"},
    {"slurmstepd: error: Detected {n} oom", fault,
     "memory ran out: Slurm says that processes were killed: {n}"},
    {" ON {host} CANCELLED AT {_} DUE TO {text} ***", fault, "Slurm cancelled the job: {text}"},
    // Open MPI's help-orterun.txt, help-mpi-api.txt, errhandler_predefined.c and stacktrace.c; PRRTE.
    {"noticed that process rank {ranks} with PID {_} on node {host} exited on signal {signal}.", ended,
     killed},
    {"MPI_ABORT was invoked on rank {ranks} in communicator MPI_COMM_WORLD", ended, "called MPI_Abort"},
    {"  Process name: [[{_},{_}],{rank}]", place},
    {"  Exit code:    {code}", ended, exited},
    {"*** reported by process [{_},{rank}]", place},
    {"*** MPI_ERR_{text}", ended, "aborted: MPI_ERR_{text}"},
    {"] Signal: {text}", error, "received signal {text}"},
    // MPICH's errutil.c, MPICH 3 and Intel MPI, and Hydra.
    {"Abort({_}) on node {ranks} (rank {_} in comm {_}): {text}", ended, "aborted: {text}"},
    {"application called MPI_Abort(MPI_COMM_WORLD, {code}) - process {ranks}", ended,
     "called MPI_Abort with code {code}"},
    {"=   RANK {rank} PID {_} RUNNING AT {host}", place},
    {"=   PID {_} RUNNING AT {host}", place},
    {"=   KILLED BY SIGNAL: {signal}", ended, killed},
    {"=   EXIT CODE: {code}", ended, exited},
    {"=   EXIT STATUS: {code}", ended, exited},
    // vLLM's multiproc_executor.py and ray_executor_v2.py, and SGLang's scheduler.
    {"Worker proc VllmWorker-{ranks} died unexpectedly", ended, "died"},
    {"RayWorkerProc rank=[{ranks}] died unexpectedly", ended, "died"},
    {"Worker VllmWorkerProcess pid {pid} died, exit code: -{signal}", ended,
     "of vLLM was killed by signal {signal}"},
    {"No available shared memory broadcast block found in {n} seconds", remark,
     "a process of vLLM hangs, or takes more than {n} s"},
    {"Watchdog timeout (self.watchdog_timeout=", timeout, "its scheduler was stuck"},
    {"Scheduler hit an exception: Traceback", error, "its scheduler raised an exception"},
    // JAX's coordination service.
    {"/job:jax_worker/replica:0/task:{ranks} heartbeat timeout", ended, no_heartbeat},
    {"are unhealthy (stopped sending heartbeats)", header, no_heartbeat},
    {"/job:jax_worker/replica:0/task:{ranks}", listed},
    // NVIDIA's driver, and Linux's oom_kill.c and hung_task.c. Xid 45 follows the end of a process.
    {"NVRM: Xid ({gpu}): 45, {text}", remark, "Xid 45 of the GPU at {gpu}: {text}"},
    {"nvidia-nvswitch{_} SXid ({_}): {text}", fault, "SXid of an NVSwitch: {text}"},
    {" blocked for more than {n} seconds.", remark, "a process is blocked in the kernel for {n} s"},
    {"nfs: server {_} not responding, {_}", fault},
    {"NVRM: Xid ({gpu}): {xid}, {text}", fault, "Xid {xid} of the GPU at {gpu}: {text}"},
    {"ut of memory: Killed process {pid} ({name})", fault,
     "memory ran out: the kernel killed process {pid} ({name})"},
    // The text of NCCL's RAS, client_support.cc of 2.24 and later. #0-0 is the largest communicator.
    {" RUNNING      OK", remark, "RAS sees nothing wrong in a group of communicators"},
    {"#{group} ({_}) ", place},
    {"  Missing communicator data from ", header, "RAS has no answer from it"},
    {"  Communicator ranks have different {text}", header, "ranks have different {text}"},
    {"  Initialization error", header, "the initialisation failed"},
    {"  Asynchronous error", header, "an asynchronous error"},
    {" considered dead (unreachable via the RAS network)", header, "RAS considers it dead"},
    {"PEER_DEAD: Process {pid} on node {host} managing GPU", fault, "RAS considers process {pid} dead"},
    {"  {n} ranks have {text}", header, "has {text}"},
    {" ranks reported {text}", header, "reported {text}"},
    {"  The missing rank{s}: {ranks}", listed},
    {"  Rank {ranks} -- ", listed},
    {"  Rank {ranks} has {text} -- ", listed, "has {text}; "},
    {"  Rank {ranks} reported {text} -- ", listed, "reported {text}; "},
    {"  Process {pid} on node {host} managing GPU", listed, "process {pid}: "},
    // The exception of a rank, as Python and PyTorch (`[rank3]: `) write it. The rows above say more.
    {"Error: {text}", raised},
    {"Exception: {text}", raised},
    {"Error", raised},
    {"Exception", raised},
};

}  // namespace rankmesh::of_log
