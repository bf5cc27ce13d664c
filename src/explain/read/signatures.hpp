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
    status,   ///< the calls of a rank on a group: {enqueued}, {completed}, perhaps {seq}, the one that timed
              ///< out
    fault,    ///< of a device, a network or the memory of {host}
    remark,   ///< about a host
    place,    ///< {rank}, {host} or {group} of the lines that follow
    root,     ///< the launcher says that the lines that follow are about the first failure
    header,   ///< what is true of the ranks and processes that the next lines list
    listed    ///< {ranks} or a process on {host} in a list
};

/// A line has the literal parts of `pattern` in this order, and fields between them. `words` are what it
/// says; empty: the line from the pattern on.
struct Signature {
    std::string_view pattern;
    Says says;
    std::string_view words = {};
};

constexpr std::string_view watchdog = "NCCL's watchdog saw a call time out";

/// Of several rows that fit a line, the first counts. A rank is named by {rank} or stands before the pattern.
constexpr Signature signatures[] = {
    // PyTorch's ProcessGroupNCCL.cpp and its copies: 2.1 and later, 2.0, 1.x; work is WorkNCCL, WorkXCCL, ...
    {"Watchdog caught collective operation timeout: {_}(SeqNum={seq}, OpType={op}, NumelIn={in}, "
     "NumelOut={out}, ",
     Says::timeout, watchdog},
    {"Watchdog caught collective operation timeout: {_}(SeqNum={seq}, OpType={op}, ", Says::timeout,
     watchdog},
    {"Watchdog caught collective operation timeout: ", Says::timeout, watchdog},
    // The same file, of the group that the line names: 2.6 and later, with started work, 2.2 to 2.5, on a
    // dump.
    {"work sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}",
     Says::status},
    {"work sequence id: {seq} PG status: last enqueued work: {enqueued}, last started work: {_}, last "
     "completed work: {completed}",
     Says::status},
    {"detected by watchdog at work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: "
     "{completed}",
     Says::status},
    {"Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}", Says::status},
    {"watchdog got stuck for {n} seconds", Says::error,
     "its watchdog was stuck for {n} s: a call of CUDA or NCCL, or the GIL, did not return"},
    // PyTorch's ProcessGroupWrapper.cpp, with TORCH_DISTRIBUTED_DEBUG=DETAIL; each rank names itself first.
    {"Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber={before}, OpType={op}, "
     "TensorShape=[{in}]",
     Says::timeout, "the collectives of ranks differ"},
    {"Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber={before}OpType={op})",
     Says::timeout, "the collectives of ranks differ"},
    // PyTorch's ProcessGroupGloo.cpp.
    {"Rank {missing} failed to pass monitoredBarrier in {n} ms", Says::timeout,
     "rank {missing} failed to pass monitoredBarrier within {n} ms"},
    {"Ranks {missing} failed to pass monitoredBarrier in {n} ms", Says::timeout,
     "ranks {missing} failed to pass monitoredBarrier within {n} ms"},
    {"successfully reached monitoredBarrier, but received errors", Says::lost,
     "lost rank 0 in monitored_barrier"},
    // Gloo's pair.cc and unbound_buffer.cc; PyTorch's TCPStore.
    {"Timed out waiting {n}ms for {_} operation to complete", Says::timeout},
    {"Connection closed by peer", Says::lost},
    {"Connection reset by peer", Says::lost},
    {"wait timeout after {n}ms, keys: {keys}", Says::timeout},
    {"Timed out after {n} seconds waiting for clients. {text}", Says::timeout},
    {"The client socket has timed out after {_} while trying to connect to ({text})", Says::error},
    {"The client socket has failed to connect to any network address of ({text})", Says::error},
    {"Broken pipe", Says::lost},
    // NCCL's socket.cc, ncclGetErrorString, net_ib, checks.h and debug.cc; PyTorch's text of ncclRemoteError.
    {"Connection closed by remote peer", Says::lost},
    {"remote process exited or there was a network error", Says::lost},
    {"possibly due to a network error or a remote process exiting prematurely", Says::lost},
    {"Got completion from peer {_} with status={text}", Says::fault},
    {"Got completion from peer {_} with error {text}", Says::fault},
    {"NCCL WARN Cuda failure {text}", Says::fault},
    {"NCCL WARN {text}", Says::remark, "NCCL warns: {text}"},
    // PyTorch's CUDACachingAllocator.cpp and CUDAException.cpp.
    {"CUDA out of memory.", Says::error},
    {"CUDA error: {text}", Says::error},
    // torchrun's summary.
    {"Root Cause (first observed failure)", Says::root},
    {"  host      : {host}", Says::place},
    {"  rank      : {rank} (local_rank: ", Says::place},
    {"  exitcode  : -{signal} (pid: {pid})", Says::ended, "was killed by signal {signal}"},
    {"  exitcode  : {code} (pid: {pid})", Says::ended, "exited with code {code}"},
    // What it says first, of a process whose rank the summary names.
    {"failed (exitcode: -{signal}) local_rank: {n} (pid: {pid}) of binary: ", Says::ended,
     "of local rank {n} was killed by signal {signal}"},
    {"failed (exitcode: {code}) local_rank: {n} (pid: {pid}) of binary: ", Says::ended,
     "of local rank {n} exited with code {code}"},
    // DeepSpeed's launcher.
    {"'--local_rank={n}', {_}] exits with return code = -{signal}", Says::ended,
     "of local rank {n} was killed by signal {signal}"},
    {"'--local_rank={n}', {_}] exits with return code = {code}", Says::ended,
     "of local rank {n} exited with code {code}"},
    // Ray's RayTaskError.
    {"RayTaskError({name}): ray::{_} (pid={_}, ip={host}, {_})", Says::error, "{name} in an actor of Ray"},
    // Slurm's srun and slurmstepd.
    {"srun: error: {host}: task {ranks}: Exited with exit code {code}", Says::ended,
     "exited with code {code}"},
    {"srun: error: {host}: tasks {ranks}: Exited with exit code {code}", Says::ended,
     "exited with code {code}"},
    {"srun: error: {host}: task {ranks}: {signal}", Says::ended, "ended: {signal}"},
    {"srun: error: {host}: tasks {ranks}: {signal}", Says::ended, "ended: {signal}"},
    {"srun: error: Node failure on {host}", Says::fault, "Slurm says that the node failed"},
    {"slurmstepd: error: Detected {n} oom", Says::fault, "memory ran out: Slurm counts {n} killed processes"},
    {" ON {host} CANCELLED AT {_} DUE TO {text} ***", Says::fault, "Slurm cancelled the job: {text}"},
    // Open MPI's help-orterun.txt, help-mpi-api.txt, errhandler_predefined.c and stacktrace.c; PRRTE.
    {"noticed that process rank {ranks} with PID {_} on node {host} exited on signal {signal}.", Says::ended,
     "was killed by signal {signal}"},
    {"MPI_ABORT was invoked on rank {ranks} in communicator MPI_COMM_WORLD", Says::ended, "called MPI_Abort"},
    {"  Process name: [[{_},{_}],{rank}]", Says::place},
    {"  Exit code:    {code}", Says::ended, "exited with code {code}"},
    {"*** reported by process [{_},{rank}]", Says::place},
    {"*** MPI_ERR_{text}", Says::ended, "aborted: MPI_ERR_{text}"},
    {"] Signal: {text}", Says::error, "received signal {text}"},
    // MPICH's errutil.c, MPICH 3 and Intel MPI, and Hydra.
    {"Abort({_}) on node {ranks} (rank {_} in comm {_}): {text}", Says::ended, "aborted: {text}"},
    {"application called MPI_Abort(MPI_COMM_WORLD, {code}) - process {ranks}", Says::ended,
     "called MPI_Abort with code {code}"},
    {"=   RANK {rank} PID {_} RUNNING AT {host}", Says::place},
    {"=   PID {_} RUNNING AT {host}", Says::place},
    {"=   KILLED BY SIGNAL: {signal}", Says::ended, "was killed by signal {signal}"},
    {"=   EXIT CODE: {code}", Says::ended, "exited with code {code}"},
    {"=   EXIT STATUS: {code}", Says::ended, "exited with code {code}"},
    // NVIDIA's driver, and Linux's oom_kill.c.
    {"NVRM: Xid ({gpu}): {xid}, {text}", Says::fault, "Xid {xid} of the GPU at {gpu}: {text}"},
    {"ut of memory: Killed process {pid} ({name})", Says::fault,
     "memory ran out: the kernel killed process {pid} ({name})"},
    // The text of NCCL's RAS, client_support.cc of 2.24 and later. #0-0 is the largest communicator.
    {"#{group} ({_}) ", Says::place},
    {"  Missing communicator data from ", Says::header, "RAS has no answer from it"},
    {"  Communicator ranks have different {text}", Says::header, "ranks have different {text}"},
    {"  Initialization error", Says::header, "the initialisation failed"},
    {"  Asynchronous error", Says::header, "an asynchronous error"},
    {" considered dead (unreachable via the RAS network)", Says::header, "RAS considers it dead"},
    {"PEER_DEAD: Process {pid} on node {host} managing GPU", Says::fault, "RAS considers process {pid} dead"},
    {" ranks have {text}", Says::header, "has {text}"},
    {" ranks reported {text}", Says::header, "reported {text}"},
    {"  The missing rank: {ranks}", Says::listed},
    {"  The missing ranks: {ranks}", Says::listed},
    {"  Rank {ranks} -- ", Says::listed},
    {"  Rank {ranks} has {text} -- ", Says::listed, "has {text}; "},
    {"  Rank {ranks} reported {text} -- ", Says::listed, "reported {text}; "},
    {"  Process {pid} on node {host} managing GPU", Says::listed, "process {pid}: "},
    // The exception of a rank, as Python and PyTorch (`[rank3]: `) write it. The rows above say more.
    {"Error: {text}", Says::error},
};

}  // namespace rankmesh::of_log
