// SPDX-License-Identifier: Apache-2.0
// Logs: the lines that explain knows, who they are of, and what they add up to.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <rankmesh/core/error.hpp>
#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

#include "explain/read/log.hpp"
#include "recorded_job.hpp"

namespace rankmesh::tests {
namespace {

namespace fs = std::filesystem;
using of_log::LogReader;
using Kind = Finding::Kind;

const auto logs = fs::path(RANKMESH_SOURCE) / "tests/explain/logs";

/// What a log says: `0: timeout: ...` of ranks, and `n001: fault: ...` of others.
std::string said_by(const std::string& log, std::optional<int> rank = {}) {
    auto reader = LogReader();
    auto stream = std::istringstream(log);
    const auto is_known = reader.read(stream, "job.log", rank);
    auto text = std::string{};
    for (const auto& record : reader.records()) {
        text += std::to_string(record.rank) + ": ";
        if (!record.reason.empty()) text += record.reason + ": " + record.error;
        for (const auto& entry : record.entries)
            text += " [" + entry.group->name + " " + std::to_string(entry.number) + " " +
                    entry.call->operation + "]";
        for (const auto& status : record.statuses)
            text += " [" + status.group->name + " " + std::to_string(status.completed) + " of " +
                    std::to_string(status.enqueued) + "]";
        text += "\n";
    }
    for (const auto& line : reader.lines())
        text += line.host + (line.is_fault ? ": fault: " : ": ") + line.text + "\n";
    EXPECT_TRUE(is_known || text.empty());
    return text;
}

/// The row that a line fits: of all rows at all places, the first.
std::size_t row_of(std::string_view line) {
    for (std::size_t row = 0; row < std::size(of_log::signatures); ++row)
        for (std::size_t i = 0; i < line.size(); ++i)
            if (of_log::fields_of(of_log::signatures[row].pattern, line.substr(i))) return row;
    return std::size(of_log::signatures);
}

struct Sample {
    std::string log;
    std::string said;
};

// Of each row, a line as its source writes it.
const Sample samples[] = {
    {"[rank3]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective "
     "operation "
     "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for "
     "600081 "
     "milliseconds before timing out.\n"
     "[rank3]:[E1218 20:27:21.484905450 ProcessGroupNCCL.cpp:2168] [PG ID 2 PG GUID 5(tp) Rank 1]  failure "
     "detected by "
     "watchdog at work sequence id: 7 PG status: last enqueued work: 9, last completed work: 6",
     "3: timeout: NCCL's watchdog saw a call time out [5 7 all_reduce] [5 6 of 9]\n"},
    {"[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=64, "
     "OpType=_ALLGATHER_BASE, Timeout(ms)=1800000) ran for 1 milliseconds before timing out.",
     "7: timeout: NCCL's watchdog saw a call time out [not named in the log 64 _all_gather_base]\n"},
    {"[E ProcessGroupNCCL.cpp:587] [Rank 2] Watchdog caught collective operation timeout: "
     "WorkNCCL(OpType=ALLREDUCE, "
     "TensorShape=[1], Timeout(ms)=1800000) ran for 1800000 milliseconds before timing out.",
     "2: timeout: NCCL's watchdog saw a call time out\n"},
    {"[rank0]:[E1 1:2:3 ProcessGroupNCCL.cpp:2300] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected "
     "by watchdog "
     "at work sequence id: 3 PG status: last enqueued work: 3, last started work: -1, last completed work: 2",
     "0:  [0 2 of 3]\n"},
    {"[rank4]:[E321 02:07:08.465150152 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 4] Exception (either an error "
     "or timeout) "
     "detected by watchdog at work: 5, last enqueued NCCL work: 7, last completed NCCL work: 4.",
     "4:  [1 4 of 7]\n"},
    {"[rank1]:[E606 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal "
     "due to a "
     "collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL "
     "work: 2, last "
     "completed NCCL work: 2.This is most likely caused by incorrect usages of collectives",
     "1:  [0 2 of 2]\n"},
    {"[rank5]:[F ProcessGroupNCCL.cpp:1157] [PG 0 Rank 5] [PG 0 Rank 5] ProcessGroupNCCL's watchdog got "
     "stuck for 600 "
     "seconds without making progress in monitoring enqueued collectives.",
     "5: timeout: its watchdog was stuck for 600 s: a call of CUDA or NCCL, or the GIL, did not return\n"},
    {"[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
     "CollectiveFingerPrint(SequenceNumber=0, OpType=BROADCAST, TensorShape=[4, 2], TensorDtypes=Float), but "
     "Rank 0 is "
     "running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[4], "
     "TensorDtypes=Float).",
     "1: timeout: the collectives of ranks differ [not named in the log 1 broadcast]\n"},
    {"[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
     "CollectiveFingerPrint(SequenceNumber=2OpType=BARRIER), but Rank 0 is running collective: ...",
     "1: timeout: the collectives of ranks differ [not named in the log 3 barrier]\n"},
    {"[rank0]:[E1129 18:45:38.981731066 ProcessGroupGloo.cpp:67] [Rank 0]: Rank 1 failed to pass "
     "monitoredBarrier in "
     "2000 ms",
     "0: timeout: rank 1 failed to pass monitoredBarrier within 2000 ms\n"},
    {"[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 2000 ms",
     "0: timeout: ranks 1, 2 failed to pass monitoredBarrier within 2000 ms\n"},
    {"[rank2]: RuntimeError: Rank 2 successfully reached monitoredBarrier, but received errors while waiting "
     "for "
     "send/recv from rank 0. Please check rank 0 logs for faulty rank.",
     "2: peer_lost: lost rank 0 in monitored_barrier\n"},
    {"[rank0]: RuntimeError: [third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
     "5000ms for recv "
     "operation to complete",
     "0: timeout: Timed out waiting 5000ms for recv operation to complete\n"},
    {"[rank0]: RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
     "[10.0.0.1]:213",
     "0: peer_lost: Connection closed by peer [10.0.0.1]:213\n"},
    {"[rank0]: RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.1]:20630: "
     "Connection "
     "reset by peer.",
     "0: peer_lost: Connection reset by peer.\n"},
    {"[rank1]: torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu",
     "1: timeout: wait timeout after 300000ms, keys: /default_pg/0//cpu\n"},
    {"[rank0]: torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients "
     "joined.",
     "0: timeout: Timed out after 61 seconds waiting for clients. 1/2 clients joined.\n"},
    {"[rank1]: torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while "
     "trying to connect "
     "to (n001, 29500).",
     "1: error: The client socket has timed out after 60000ms while trying to connect to (n001, 29500).\n"},
    {"[rank1]: torch.distributed.DistNetworkError: The client socket has failed to connect to any network "
     "address of "
     "(n001, 29500).",
     "1: error: The client socket has failed to connect to any network address of (n001, 29500).\n"},
    {"[rank1]:[W socket.cpp:460] [c10d] sendBytes failed on SocketImpl(fd=3): Broken pipe",
     ": the store of PyTorch has ended, as also at the end of a job\n"},
    {"[rank1]: RuntimeError: Broken pipe", "1: peer_lost: Broken pipe\n"},
    {"[rank1]:[W1018 12:00:00.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=64, "
     "addr=[localhost]:58762, remote=[localhost]:29500): failed to recv, got 0 bytes\n[rank1]:[W1018 "
     "12:00:00.1 ProcessGroupNCCL.cpp:1659] [PG ID 0 PG GUID 0(default_pg) Rank 1] Failed to check the "
     "\"should dump\" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: failed "
     "to recv, got 0 bytes",
     ": the store of PyTorch has ended, as also at the end of a job\n"},
    {"[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving "
     "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: failed to "
     "recv, got 0 bytes",
     "3: peer_lost: lost the store of PyTorch, which rank 0 serves\n"},
    {"[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: "
     "1, last completed NCCL work: 76280750235782912.",
     "2:  [0 0 of 1]\n"},
    {"(EngineCore_DP0 pid=265) ERROR 02-27 10:31:24 [multiproc_executor.py:231] Worker proc VllmWorker-2 "
     "died unexpectedly, shutting down executor.",
     "2: ended: died\n"},
    {"ERROR ... [ray_executor_v2.py:464] RayWorkerProc rank=[3] died unexpectedly, shutting down executor.",
     "3: ended: died\n"},
    {"ERROR 10-30 11:56:48 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 198 died, exit code: "
     "-6",
     ": fault: a process of vLLM was killed by signal 6\n"},
    {"(EngineCore_DP0 pid=2) INFO 10-08 12:00:03 [shm_broadcast.py:466] No available shared memory broadcast "
     "block found in 60 seconds. This typically happens when some processes are hanging.",
     ": a process of vLLM hangs, or takes more than 60 s\n"},
    {"[2026-01-05 10:05:00 TP1] Watchdog timeout (self.watchdog_timeout=300)",
     "1: timeout: its scheduler was stuck\n"},
    {"[2026-01-05 10:05:00 TP3] Scheduler hit an exception: Traceback (most recent call last):",
     "3: error: its scheduler raised an exception\n"},
    {"Task /job:jax_worker/replica:0/task:3 heartbeat timeout. This indicates that the remote task has "
     "failed, got preempted, or crashed unexpectedly.",
     "3: ended: no longer sends heartbeats to JAX's coordinator\n"},
    {"absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
     "/job:jax_worker/replica:0/task:3\nThe tasks have crashed.",
     "3: ended: no longer sends heartbeats to JAX's coordinator\n"},
    {"Jan  2 03:04:05 n001 kernel: [ 12.3] NVRM: Xid (PCI:0000:3b:00): 45, pid=12, name=python3, Ch 8",
     "n001: Xid 45 of the GPU at PCI:0000:3b:00: pid=12, name=python3, Ch 8\n"},
    {"Jan  2 03:04:05 n001 kernel: nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 28 "
     "egress non-posted PRIV error",
     "n001: fault: SXid of an NVSwitch: 12028, Non-fatal, Link 28 egress non-posted PRIV error\n"},
    {"Jan  2 03:04:05 n001 kernel: INFO: task python3:77 blocked for more than 120 seconds.",
     "n001: a process is blocked in the kernel for 120 s\n"},
    {"Jan  2 03:04:05 n001 kernel: nfs: server nas1 not responding, still trying",
     "n001: fault: nfs: server nas1 not responding, still trying\n"},
    {"2: n001:12:34 [2] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer "
     "n002<51>",
     "2: peer_lost: Connection closed by remote peer n002<51>\n"},
    {"[rank2]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network "
     "error, NCCL "
     "version 2.21.5",
     "2: peer_lost: remote process exited or there was a network error, NCCL version 2.21.5\n"},
    {"[rank2]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
     "prematurely.",
     "2: peer_lost: possibly due to a network error or a remote process exiting prematurely.\n"},
    {"n001:12:34 [2] transport/net_ib.cc:74 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<5> with "
     "error 12, opcode 0, len 0, vendor err 129",
     "n001: fault: Got completion from peer 10.0.0.1<5> with error 12, opcode 0, len 0, vendor err 129\n"},
    {"n001:12:34 [2] misc/socket.cc:518 NCCL WARN Net : Call to recv from 10.0.0.1<5> failed : Broken pipe",
     "n001: Broken pipe\n"},
    {"n001:12:34 [2] transport/net_ib.cc:1930 NCCL WARN NET/IB: Got completion from peer 10.0.0.1<5> with "
     "status=12 "
     "opcode=0 len=0 vendor err 129",
     "n001: fault: Got completion from peer 10.0.0.1<5> with status=12 opcode=0 len=0 vendor err 129\n"},
    {"n001:12:34 [2] enqueue.cc:1 NCCL WARN Cuda failure 2 'out of memory'",
     "n001: fault: NCCL WARN Cuda failure 2 'out of memory'\n"},
    {"[2026-01-02 03:04:05] n001:12:34 [2] init.cc:1 NCCL WARN Invalid config",
     "n001: NCCL warns: Invalid config\n"},
    {"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
     "3: error: CUDA out of memory. Tried to allocate 2.00 GiB.\n"},
    {"[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered",
     "3: error: CUDA error: an illegal memory access was encountered\n"},
    {"Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-29_18:45:20\n  host      : n001\n  "
     "rank      : 1 "
     "(local_rank: 1)\n  exitcode  : -9 (pid: 16389)  (SIGKILL)",
     "1: ended: was killed by signal 9\n"},
    {"failed (exitcode: 1) local_rank: 0 (pid: 3) of binary: python\n  rank      : 2 (local_rank: 0)\n"
     "  exitcode  : 1 (pid: 3)",
     "2: ended: exited with code 1\n"},
    {"E1129 api.py:1002] failed (exitcode: 1) local_rank: 1 (pid: 3) of binary: python",
     ": fault: a process of local rank 1 exited with code 1\n"},
    {"E1129 api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 3) of binary: python",
     ": fault: a process of local rank 1 was killed by signal 9\n"},
    {"worker-0: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, internal error",
     "worker-0: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, internal error\n"},
    {"(WorkerDict pid=12, ip=10.0.0.2) ValueError: bad batch", "10.0.0.2: ValueError: bad batch\n"},
    {"(RayWorkerVllm pid=12) ERROR 04-07 00:57:46 ray_utils.py:45] RuntimeError: NCCL error: x",
     "(RayWorkerVllm pid=12): RuntimeError: NCCL error: x\n"},
    {"(RayWorkerVllm pid=12) INFO 04-07 00:57:46 ray_utils.py:45] RuntimeError: handled", ""},
    {"ray.exceptions.RayTaskError(DistBackendError): ray::WorkerDict.init() (pid=12, ip=10.0.0.2, "
     "actor_id=7f, repr=x)",
     "10.0.0.2: DistBackendError in an actor of Ray\n"},
    {"[launch.py:321:sigkill_handler] ['python', '-u', 'x.py', '--local_rank=4', '--seed', '1'] exits with "
     "return code = -9",
     ": fault: a process of local rank 4 was killed by signal 9\n"},
    {"[launch.py:321:sigkill_handler] ['python', '-u', 'x.py', '--local_rank=4', '--seed', '1'] exits with "
     "return code = 1",
     ": fault: a process of local rank 4 exited with code 1\n"},
    {"[pod/worker-0/main] ValueError: bad batch", "[pod/worker-0/main]: ValueError: bad batch\n"},
    {"srun: error: n001: task 3: Exited with exit code 2", "3: ended: exited with code 2\n"},
    {"srun: error: n001: tasks 1-2,4: Exited with exit code 2",
     "1: ended: exited with code 2\n2: ended later: exited with code 2\n4: ended later: exited with code "
     "2\n"},
    {"srun: error: n001: task 3: Out Of Memory", "3: ended: ended: Out Of Memory\n"},
    {"srun: error: n001: tasks 0-1: Segmentation fault (core dumped)",
     "0: ended: ended: Segmentation fault (core dumped)\n1: ended later: ended: Segmentation fault (core "
     "dumped)\n"},
    {"srun: error: Node failure on n001", "n001: fault: Slurm says that the node failed\n"},
    {"slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been OOM "
     "Killed.",
     ": fault: memory ran out: Slurm says that processes were killed: 1\n"},
    {"slurmstepd: error: *** STEP 123.0 ON n001 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",
     "n001: fault: Slurm cancelled the job: TIME LIMIT\n"},
    {"mpirun noticed that process rank 1 with PID 0 on node n001 exited on signal 9 (Killed).",
     "1: ended: was killed by signal 9 (Killed)\n"},
    {"MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD", "1: ended: called MPI_Abort\n"},
    {"  Process name: [[21430,1],2]\n  Exit code:    3", "2: ended: exited with code 3\n"},
    {"[n001:123] *** An error occurred in MPI_Recv\n[n001:123] *** reported by process "
     "[3204186113,1]\n[n001:123] *** "
     "MPI_ERR_TRUNCATE: message truncated",
     "1: ended: aborted: MPI_ERR_TRUNCATE: message truncated\n"},
    {"[1,1]<stderr>:[n001:16252] Signal: Segmentation fault (11)",
     "1: error: received signal Segmentation fault (11)\n"},
    {"Abort(537547024) on node 1 (rank 1 in comm 0): Fatal error in internal_Recv: Message truncated",
     "1: ended: aborted: Fatal error in internal_Recv: Message truncated\n"},
    {"application called MPI_Abort(MPI_COMM_WORLD, 5) - process 1",
     "1: ended: called MPI_Abort with code 5\n"},
    {"=   RANK 2 PID 77 RUNNING AT n001\n=   KILLED BY SIGNAL: 9 (Killed)",
     "2: ended: was killed by signal 9 (Killed)\n"},
    {"=   PID 77 RUNNING AT n001\n=   EXIT CODE: 9", "n001: fault: a process exited with code 9\n"},
    {"=   RANK 2 PID 77 RUNNING AT n001\n=   EXIT STATUS: 5", "2: ended: exited with code 5\n"},
    {"Jan  2 03:04:05 n001 kernel: [ 12.3] NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the "
     "bus.",
     "n001: fault: Xid 79 of the GPU at PCI:0000:3b:00: pid=12, GPU has fallen off the bus.\n"},
    {"[  12.3] Memory cgroup out of memory: Killed process 77 (python3) total-vm:1kB",
     ": fault: memory ran out: the kernel killed process 77 (python3)\n"},
    {"(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker ID: "
     "abc "
     "Node ID: def Worker IP address: 10.0.0.7 Worker port: 10123 Worker PID: 4512 Worker exit type: "
     "SYSTEM_ERROR "
     "Worker exit detail: Worker unexpectedly exits with a connection error code 2.",
     "10.0.0.7: fault: a process of Ray ended: SYSTEM_ERROR\n"},
    {"(raylet, ip=10.0.0.7) [2026-01-02 03:04:05,678 E 123 123] (raylet) node_manager.cc:3064: 1 Workers "
     "(tasks / "
     "actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: def)",
     ": fault: memory ran out: Ray killed workers: 1\n"},
    {"node_manager.cc:3064: 0 Workers (tasks / actors) killed due to memory pressure (OOM), 2 Workers "
     "crashed due to "
     "other reasons",
     ": Ray says that workers crashed: 2\n"},
    // Of RAS: 2.24 lists missing ranks in a line.
    {"#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21",
     "21: error: RAS has no answer from it\n"},
    {"#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 2 ranks\n  The missing ranks: 2,4",
     "2: error: RAS has no answer from it\n4: error: RAS has no answer from it\n"},
    {"#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 3 -- GPU 3 managed "
     "by process 9 "
     "on node 10.0.0.1",
     "3: error: RAS has no answer from it\n"},
    {"#0-0 (9e17999afaa87dbb) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  7 "
     "ranks have "
     "launched up to operation 5\n  Rank 3 has launched up to operation 4 -- GPU 3 managed by process 9 on "
     "node 10.0.0.1",
     "3: error: has launched up to operation 4, but 7 ranks have launched up to operation 5\n"},
    {"#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllGather operation counts\n"
     "  30 ranks have launched up to operation 640\n  2 ranks have launched up to operation 641\n"
     "  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124",
     "12: error: has launched up to operation 641, but 30 ranks have launched up to operation 640\n"},
    {"    0         1        32         8       256       256   RUNNING      OK",
     ": RAS sees nothing wrong in a group of communicators\n"},
    {"#0-0 (9e17999afaa87dbb) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  "
     "Rank 0 has "
     "launched up to operation 5 -- GPU 0 managed by process 9 on node 10.0.0.1",
     "0: error: has launched up to operation 5; ranks have different AllReduce operation counts\n"},
    {"#1-0 (9e17999afaa87dbb) ERROR\n  Initialization errors on 2 ranks\n  2 ranks reported System error\n  "
     "Rank 1 -- GPU 3 "
     "managed by process 9 on node 10.0.0.1",
     ": fault: rank 1 of communicator #1-0 reported System error\n"},
    {"#0-0 (9e17999afaa87dbb) ERROR\n  Initialization error on 1 rank\n  Rank 1 reported Internal error -- "
     "GPU 3 managed by "
     "process 9 on node 10.0.0.1",
     "1: error: reported Internal error; the initialisation failed\n"},
    {"#0-0 (9e17999afaa87dbb) ERROR\n  Asynchronous error on 1 rank\n  Rank 1 reported Remote process error "
     "-- GPU 3 managed "
     "by process 9 on node 10.0.0.1",
     "1: error: reported Remote process error; an asynchronous error\n"},
    {"DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 34 on node "
     "10.0.0.2 managing GPU "
     "5",
     "10.0.0.2: fault: process 34: RAS considers it dead\n"},
    {"[2026-12-19 13:07:07] PEER_DEAD: Process 1524 on node 10.0.0.2 managing GPU 1",
     "10.0.0.2: fault: RAS considers process 1524 dead\n"},
    {"[rank1]: ValueError: bad batch", "1: error: ValueError: bad batch\n"},
    {"[rank1]: Exception: bad batch", "1: error: Exception: bad batch\n"},
    {"[rank1]: AssertionError\r", "1: error: AssertionError\n"},
    {"[rank1]: my_errors.BadException", "1: error: my_errors.BadException\n"},
};

TEST(Logs, EachRow_SaysWhatItsSourceMeans_AndHasASample) {
    auto tested = std::set<std::size_t>{};
    for (const auto& [log, said] : samples) {
        auto stream = std::istringstream(log);
        for (auto line = std::string{}; std::getline(stream, line);) tested.insert(row_of(line));
        EXPECT_EQ(said_by(log), said) << log;
    }
    for (std::size_t row = 0; row < std::size(of_log::signatures); ++row)
        EXPECT_TRUE(tested.contains(row)) << of_log::signatures[row].pattern;
}

TEST(Logs, OtherLines_SayNothing) {
    for (const auto* log :
         {"", "\n\n", "step 1 loss 2.0",
          "[rank0]: Traceback (most recent call last):", "INFO: ValueError: handled, trying again",
          "Error: no name", "loading: Error: x", "  Rank 3 -- GPU 3 managed by process 9 on node 10.0.0.1",
          "#0 main from a.py (x) y", "  exitcode  : 0 (pid: 3)", "[rank0]: 3 Errors found",
          "  File \"x.py\", in raise_Error", "Watchdog caught collective operation timeout: WorkNCCL("})
        EXPECT_EQ(said_by(log), "") << log;
}

TEST(Logs, ARankBeforeALine_IsReadAsProgramsAndLaunchersWriteIt) {
    const std::string error = "RuntimeError: x";
    for (const std::string before :
         {"[rank12]: ", "[default3]:[rank12]: ", "n001: [rank12]: ", "[1,12]<stderr>: ", "12: [rank12]: ",
          "12: ", " 12: ", "[12] ", "[prterun-n001-7@1,12]<stderr>: ", "\x1b[36m(W pid=7)\x1b[0m [rank12]: ",
          "(Worker_TP12 pid=7) ", "(Worker_TP12_EP12 pid=7) ERROR 10-08 12:01:00 [multiproc_executor.py:7] ",
          "(VllmWorker rank=12 pid=7) ", "(VllmWorker TP12 pid=7) ", "[2026-01-05 10:05:00 TP12] "})
        EXPECT_EQ(said_by(before + error), "12: error: RuntimeError: x\n") << before;
    const std::string oom = "CUDA out of memory.";
    for (const std::string before :
         {"(Worker_DP1_TP12 pid=7) ", "(Worker_PP1_TP12 pid=7) ", "[2026-01-05 10:05:00 DP1 TP12] "})
        EXPECT_EQ(said_by(before + oom).find("12: "), std::string::npos)
            << "no rank of the world: " << before;
    for (const std::string before : {"12: ", " 12: ", "[12] ", "[1,12]<stdout>:"})
        EXPECT_EQ(said_by(before + oom), "12: error: CUDA out of memory.\n") << before;
    EXPECT_EQ(said_by(error, 3), "3: error: RuntimeError: x\n");
    EXPECT_EQ(said_by("CUDA out of memory."), ": CUDA out of memory.\n") << "a remark";
}

TEST(Logs, ALineThatCrossesReads_AndALongLine_AreRead) {
    const std::string error = "[rank1]: ValueError: bad batch\n";
    for (std::size_t left = 0; left <= error.size(); ++left) {
        auto filler = std::string((std::size_t{1} << 20) - left, 'x');
        for (std::size_t i = 99; i < filler.size(); i += 100) filler[i] = '\n';
        filler.back() = '\n';
        EXPECT_EQ(said_by(filler + error), "1: error: ValueError: bad batch\n") << left;
    }
    EXPECT_EQ(said_by(std::string(3 << 20, 'x') + "\n" + error), "1: error: ValueError: bad batch\n");
    const auto said =
        said_by("[rank1]: ValueError: " + std::string(3 << 20, 'x') + "\n[rank2]: ValueError: y\n");
    EXPECT_LT(said.size(), 500U);
    EXPECT_NE(said.find("2: error: ValueError: y"), std::string::npos);
}

TEST(Logs, LinesThatACollectorWroteAsJson_AreThoseOfTheProgram) {
    const auto at = [](const std::string& log) {
        auto reader = LogReader();
        auto stream = std::istringstream(log);
        EXPECT_TRUE(reader.read(stream, "job.log")) << log;
        return reader;
    };
    // Docker's json-file, with two lines of a program in one.
    const auto docker = at(
        R"({"log":"start\n","stream":"stdout","time":"2024-12-18T20:27:20.1Z"})"
        "\n"
        R"({"log":"[rank1]: KeyError: \"a\"\n[rank2]: ValueError: b\n","stream":"stderr","time":"2024-12-18T20:27:25.1Z"})");
    ASSERT_EQ(docker.records().size(), 2u);
    EXPECT_EQ(docker.records()[0].error, "KeyError: \"a\"");
    EXPECT_EQ(docker.records()[1].error_at, "job.log:2, 20:27:25");
    // A program's own logger, Fluent Bit of Kubernetes, Loki, and journald.
    const auto logger = at(R"({"ts":"2024-12-18 20:27:25,1","rank":5,"msg":"ValueError: b"})").records();
    ASSERT_EQ(logger.size(), 1u);
    EXPECT_EQ(logger[0].rank, 5);
    EXPECT_EQ(logger[0].error_at, "job.log:1, 20:27:25");
    const auto pod = at(R"({"log":"[rank3]: ValueError: b","kubernetes":{"pod_name":"train-0"}})").records();
    ASSERT_EQ(pod.size(), 1u);
    EXPECT_EQ(pod[0].host, "train-0");
    const auto xid = at(R"({"labels":{"host":"n004"},"line":"NVRM: Xid (PCI:0000:3b:00): 79, gone"})"
                        "\n"
                        R"x({"MESSAGE":"Out of memory: Killed process 7 (python)","_HOSTNAME":"n005"})x")
                         .lines();
    ASSERT_EQ(xid.size(), 2u);
    EXPECT_EQ(xid[0].host, "n004");
    EXPECT_EQ(xid[1].host, "n005");
    // The container runtime of Kubernetes writes no JSON, but a time before the line.
    const auto runtime = at("2024-12-18T20:27:25.1Z stderr F [rank3]: ValueError: b").records();
    ASSERT_EQ(runtime.size(), 1u);
    EXPECT_EQ(runtime[0].error_at, "job.log:1, 20:27:25");
    EXPECT_EQ(said_by(R"({"log":"[rank3]: ValueError: cut)"), "3: error: ValueError: cut\n");
    EXPECT_EQ(said_by(R"({"rank":-1,"msg":"ValueError: b"})"), ": ValueError: b\n");
}

TEST(Logs, LinesThatWereJoined_AreSeveral) {
    auto log = std::string{};
    auto said = std::string{};
    for (int rank = 0; rank < 5000; ++rank) {
        const auto number = std::to_string(rank);
        log += "[rank" + number + "]: ValueError: bad batch " + number + " ";
        said += number + ": error: ValueError: bad batch " + number + "\n";
    }
    EXPECT_TRUE(said_by(log) == said);
}

TEST(Logs, TheFirstErrorOfARank_IsItsError) {
    EXPECT_EQ(said_by("[rank1]: ValueError: a\n[rank1]: KeyError: b\nsrun: error: n001: task 1: Exited with "
                      "exit code 1\n"
                      "srun: error: n002: task 2: Terminated\nsrun: error: n003: task 3: Killed"),
              "1: ended: exited with code 1 after ValueError: a\n3: ended later: ended: Killed\n");
    EXPECT_EQ(said_by("[rank1]: RuntimeError: Connection closed by peer [10.0.0.1]:1\nsrun: error: n001: "
                      "task 1: Exited with "
                      "exit code 1"),
              "1: peer_lost: Connection closed by peer [10.0.0.1]:1\n");
    EXPECT_EQ(said_by("application called MPI_Abort(MPI_COMM_WORLD, 5) - process 1\n=   PID 77 RUNNING AT "
                      "n001\n=   EXIT CODE: 5"),
              "1: ended: called MPI_Abort with code 5\nn001: a process exited with code 5\n");
}

Explanation explained(const std::vector<std::string>& paths, RecordFolder* folder = nullptr) {
    auto found = read_records(paths);
    auto said = explain(found.records, found.unread, {}, found.lines);
    if (folder) *folder = std::move(found);
    return said;
}

/// The kinds and ranks of findings: `left {1}`.
std::string findings_of(const Explanation& said) {
    auto text = std::string{};
    for (const auto& one : said.findings)
        text += std::string(to_string(one.kind)) + " " + ranks_to_string(one.ranks) + "\n";
    return text;
}

TEST(Logs, OfRealJobs_NameTheRank) {
    for (
        const auto& [file, kind, text] : {
            std::tuple{"torchrun_kill", "left {1}\n", "rank 1 was killed by signal 9 (torchrun_kill.log:33)"},
            {"torchrun_raise", "left {1}\n",
             "rank 1 exited with code 1 after ValueError: bad batch (torchrun_raise.log:2)"},
            {"torchrun_diff", "calls_differ {1}\n",
             "rank 1 called broadcast of 4 as call 1 on 'not named in the log' {0..2} (inferred), where "
             "ranks {0, 2} "
             "called all_reduce of 4; the operation differs"},
            {"torchrun_mon", "absent {1}\n",
             "rank 1 reports nothing; rank 0 reports that it failed to pass monitoredBarrier within 2000 ms"},
            {"torchrun_slow", "failed {0, 2}\n",
             "rank 0 reports timeout: Timed out waiting 5000ms for recv operation to complete "
             "(torchrun_slow.log:2)"},
            {"mpirun_exit", "left {1}\n", "rank 1 exited with code 3 (mpirun_exit.log:10)"},
            {"mpirun_abort", "left {1}\n", "rank 1 called MPI_Abort (mpirun_abort.log:2)"},
            {"mpirun_tag", "left {1}\n",
             "rank 1 was killed by signal 11 (Segmentation fault) after received signal Segmentation fault "
             "(11) "
             "(mpirun_tag.log:2)"},
        }) {
        const auto said = explained({(logs / file).string() + ".log"});
        EXPECT_EQ(findings_of(said), kind) << file;
        ASSERT_FALSE(said.findings.empty());
        EXPECT_EQ(said.findings.front().text, text) << file;
    }
    EXPECT_EQ(explained({(logs / "torchrun_slow.log").string()}).findings.front().details.back(),
              "rank 1 reports nothing: it may not have come, so look at what it did");
}

class LogFolder : public ::testing::Test {
protected:
    void SetUp() override {
        auto name = (fs::temp_directory_path() / "rankmesh-logs-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }
    std::string write(const std::string& name, const std::string& text) {
        std::ofstream(folder_ / name) << text;
        return (folder_ / name).string();
    }
    fs::path folder_;
};

/// The lines of the watchdog of a rank in a call of the group of all ranks.
std::string timed_out(int rank, int number, const std::string& type, int elements, int enqueued) {
    const auto before = "[rank" + std::to_string(rank) + "]:[E101 01:00:00.1 ProcessGroupNCCL.cpp:607] ";
    return before + "[Rank " + std::to_string(rank) +
           "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + std::to_string(number) +
           ", OpType=" + type + ", NumelIn=" + std::to_string(elements) +
           ", NumelOut=" + std::to_string(elements) +
           ", Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n" + before +
           "[PG ID 0 PG GUID 0(default_pg) Rank " + std::to_string(rank) +
           "] failure detected by watchdog at work sequence id: " + std::to_string(number) +
           " PG status: last enqueued work: " + std::to_string(enqueued) +
           ", last completed work: " + std::to_string(number - 1) + "\n";
}

std::string dumps(int rank, int number) {
    return "[rank" + std::to_string(rank) +
           "]:[E101 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank " + std::to_string(rank) +
           "] Received a dump signal due to a collective timeout from  rank 0 and we will try our best " +
           "to dump the debug info. Last enqueued NCCL work: " + std::to_string(number) +
           ", last completed NCCL work: " + std::to_string(number) + ".This is most likely\n";
}

TEST_F(LogFolder, TheWatchdogsLines_SayWhichCallDiffers) {
    const auto said = explained({write("job.log", timed_out(0, 78, "BROADCAST", 5056, 80) +
                                                      timed_out(1, 78, "ALLREDUCE", 2106881, 78) +
                                                      timed_out(2, 78, "ALLREDUCE", 2106881, 78))});
    EXPECT_EQ(findings_of(said), "calls_differ {0}\n");
    EXPECT_EQ(said.findings.at(0).text,
              "rank 0 called broadcast of 5056 as call 78 on 'default_pg' {0..2} (inferred), where ranks {1, "
              "2} called "
              "all_reduce of 2106881; the operation differs");
}

TEST_F(LogFolder, TheWatchdogsLines_SayWhoIsBehind) {
    auto said = explained({write(
        "job.log", timed_out(0, 3, "ALLREDUCE", 8, 3) + timed_out(2, 3, "ALLREDUCE", 8, 5) + dumps(1, 2))});
    EXPECT_EQ(findings_of(said), "behind {1}\n");
    EXPECT_NE(said.findings.at(0).text.find("rank 1 is behind: 2 of 3 calls made on 'default_pg'"),
              std::string::npos)
        << said.findings.at(0).text;
    // A rank without a line.
    said = explained(
        {write("job.log", timed_out(0, 3, "ALLREDUCE", 8, 3) + timed_out(2, 3, "ALLREDUCE", 8, 5))});
    EXPECT_EQ(findings_of(said), "absent {1}\n");
    // Its own error says why.
    said = explained({write("job.log", timed_out(0, 3, "ALLREDUCE", 8, 3) +
                                           timed_out(2, 3, "ALLREDUCE", 8, 5) + "[rank1]: KeyError: 'x'\n")});
    EXPECT_EQ(findings_of(said), "left {1}\n");
    EXPECT_EQ(said.findings.at(0).text, "rank 1 left: KeyError: 'x' (job.log:5)");
    // A rank's own error is more than the silence of another.
    said = explained({write("job.log", timed_out(0, 3, "ALLREDUCE", 8, 3) +
                                           timed_out(3, 3, "ALLREDUCE", 8, 5) + "[rank1]: KeyError: 'x'\n")});
    EXPECT_EQ(findings_of(said), "left {1}\n");
    // All have come.
    said = explained(
        {write("job.log", timed_out(0, 3, "ALLREDUCE", 8, 3) + timed_out(1, 3, "ALLREDUCE", 8, 5))});
    EXPECT_EQ(findings_of(said), "failed {0, 1}\n") << "the log does not say how many ranks there are";
    EXPECT_EQ(said.findings.at(0).details.at(0),
              "ranks {0, 1} waited in all_reduce of 8, call 3 on 'default_pg' {0, 1} (inferred)");
}

TEST_F(LogFolder, ARankOfAGroup_IsNoRankOfTheWorld) {
    const auto raised = [](const std::string& group) {
        return "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG ID 2 "
               "PG "
               "GUID " +
               group +
               " Rank 1] Process group watchdog thread terminated with exception: [Rank 1] Watchdog caught "
               "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, "
               "Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n";
    };
    EXPECT_EQ(said_by(raised("5(tp)")), "");
    EXPECT_EQ(said_by(raised("0(default_pg)")),
              "1: timeout: NCCL's watchdog saw a call time out [0 7 all_reduce]\n");
    EXPECT_EQ(said_by(raised("5(tp)"), 9),
              "9: timeout: NCCL's watchdog saw a call time out [5 7 all_reduce]\n");
    const auto said = said_by(timed_out(5, 7, "ALLREDUCE", 8, 7) + raised("0(default_pg)"));
    EXPECT_EQ(said.find("1: "), std::string::npos) << said;
}

TEST_F(LogFolder, CallsThatMayDiffer_AreNoDifference) {
    for (const std::string type : {"ALLTOALL", "ALLTOALL_BASE"})
        EXPECT_EQ(findings_of(explained(
                      {write("job.log", timed_out(0, 7, type, 8, 7) + timed_out(1, 7, type, 9, 7))})),
                  "failed {0, 1}\n")
            << type;
    // Batches of messages have numbers of their own.
    EXPECT_EQ(findings_of(explained({write(
                  "job.log", timed_out(0, 7, "COALESCED", 8, 7) + timed_out(1, 9, "COALESCED", 8, 9))})),
              "failed {0, 1}\n");
}

TEST_F(LogFolder, ARankThatGaveUpElsewhere_IsNotBehind) {
    const auto stuck = [](int rank) {
        const auto number = std::to_string(rank);
        return "[rank" + number +
               "]:[E626 05:14:36.3 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) " + "Rank " +
               number + "] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n";
    };
    EXPECT_EQ(
        findings_of(explained({write("job.log", timed_out(2, 5, "ALLREDUCE", 8, 5) + stuck(0) + stuck(1))})),
        "failed {0..2}\n");
    // In torchrun's folders: ranks 0 and 2 wait in Gloo, and NCCL's status says that they made 77 calls.
    const auto process = [&](int rank, const std::string& text) {
        const auto folder = folder_ / "logs" / "attempt_0" / std::to_string(rank);
        fs::create_directories(folder);
        std::ofstream(folder / "stderr.log") << text;
    };
    const auto closed = [](int rank) {
        return "[rank" + std::to_string(rank) +
               "]: RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer "
               "[192.168.7.7]:57000\n";
    };
    for (const auto rank : {0, 2}) process(rank, dumps(rank, 77) + closed(rank));
    for (const auto rank : {1, 3, 4}) process(rank, timed_out(rank, 78, "BROADCAST", 80, 79));
    const auto said = explained({(folder_ / "logs").string()});
    EXPECT_EQ(findings_of(said), "behind {0, 2}\n");
    EXPECT_THROW(explained({(logs.parent_path() / "records").string()}), UsageError)
        << "records of several jobs";
    EXPECT_EQ(said.findings.at(0).details.at(0),
              "rank 0: 77 of 78 calls made on 'default_pg' {0..4} (inferred)");
}

TEST_F(LogFolder, ManyRanksInCallsOfTheirOwn_AreExplainedBeforeAPersonGivesUp) {
    constexpr auto ranks = 20'000;
    auto numbers = std::string{};
    auto sizes = std::string{};
    auto groups = std::string{};
    for (int rank = 0; rank < ranks; ++rank) {
        numbers += timed_out(rank, ranks - rank, "ALLREDUCE", 8, ranks - rank);
        sizes += timed_out(rank, 5, "ALLREDUCE", 8 + rank, 5);
        auto of_group = timed_out(rank, 5, "ALLREDUCE", 8, 5);
        of_group.replace(of_group.find("0(default_pg)"), 13, std::to_string(rank / 2 + 1) + "(tp)");
        groups += of_group;
    }
    EXPECT_EQ(findings_of(explained({write("a.log", numbers)})), "unfinished {19999}\n");
    EXPECT_EQ(findings_of(explained({write("b.log", sizes)})), "calls_differ {0..19999}\n");
    EXPECT_EQ(findings_of(explained({write("c.log", groups)})), "failed {0..19999}\n");
}

TEST_F(LogFolder, OfSeveralErrors_TheEarliestIsFirst) {
    auto said = explained({write("job.log", "[rank1]: ValueError: b\n[rank0]: ValueError: a\n")});
    EXPECT_EQ(said.findings.at(0).text, "rank 1 reports error: ValueError: b (job.log:1)");
    const auto first = write("a.log", "x\n[rank3]:[E101 12:00:09.1 a.cpp:1] [Rank 3] CUDA error: b\n");
    const auto second = write("b.log", "x\nx\nx\n[rank2]:[E101 12:00:01.1 a.cpp:1] [Rank 2] CUDA error: c\n");
    said = explained({first, second});
    EXPECT_EQ(said.findings.at(0).text.substr(0, 22), "rank 2 reports error: ");
}

TEST_F(LogFolder, LogsRecordsAndDumps_AreOneJob) {
    auto job = RecordedJob(Mesh{{"tp", 3}});
    job.all({{"tp"}});
    job[1].clear();
    job.run();
    job.write(folder_ / "records", {1});
    const auto records = (folder_ / "records").string();
    auto said = explained({records});
    EXPECT_EQ(findings_of(said), "absent {1}\n");
    const auto slurm = write("slurm.out", "srun: error: n002: task 1: Out Of Memory\n");
    const auto kernel = write(
        "dmesg", "Jan  2 03:04:05 n002 kernel: Out of memory: Killed process 77 (python) total-vm:1kB\n");
    auto folder = RecordFolder{};
    said = explained({records, slurm, kernel}, &folder);
    EXPECT_EQ(findings_of(said), "fault {}\nleft {1}\n");
    EXPECT_EQ(said.findings.at(0).text,
              "n002: memory ran out: the kernel killed process 77 (python) (" + kernel + ":1, 03:04:05)");
    EXPECT_EQ(said.findings.at(1).text.substr(0, said.findings.at(1).text.find(" (/")),
              "rank 1 (tp=1) ended: Out Of Memory");
    EXPECT_EQ(lines_of(folder.records, said).front().text, "3 records of ranks {0..2}, of gloo, logs");
    // A record keeps its own error.
    const auto other = write("other.log", "[rank0]: ValueError: late\n");
    explained({records, other}, &folder);
    EXPECT_EQ(folder.records.front().reason, "timeout");
}

TEST_F(LogFolder, DumpsAndLogs_OfOneGroup_AreNotComparedByTheirTypes) {
    // The log has no types: rank 1 made the same call.
    write(
        "trace_0",
        R"({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "entries": [)"
        R"({"process_group": ["0", "default_pg"], "pg_id": 0, "collective_seq_id": 3, "profiling_name": "nccl:all_reduce", )"
        R"("state": "started", "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"], "output_dtypes": )"
        R"(["Float"]}]})");
    write("job.log", timed_out(1, 3, "ALLREDUCE", 8, 3));
    EXPECT_EQ(findings_of(explained({folder_.string()})), "unfinished {}\n");
}

TEST_F(LogFolder, OfSeveralErrors_CannotTellIsAnAnswer) {
    auto folder = RecordFolder{};
    const auto said = explained({write("job.log", dumps(0, 2) + dumps(1, 2))}, &folder);
    EXPECT_TRUE(said.findings.empty());
    EXPECT_NE(std::ranges::find(
                  said.doubts,
                  "logs and reports do not say which calls have ended, and name only calls that did not"),
              said.doubts.end());
    // Only a remark.
    const auto remark = explained({write("warn.log", "n001:1:2 [0] NCCL WARN Invalid config\n")}, &folder);
    EXPECT_TRUE(remark.findings.empty());
    EXPECT_EQ(remark.notes,
              std::vector<std::string>{"n001: NCCL warns: Invalid config (" + folder.lines.at(0).at + ")"});
}

TEST_F(LogFolder, SeveralRanksThatEndedAlike_AreNamedTogether) {
    const auto killed = [](int rank) {
        return "=   RANK " + std::to_string(rank) +
               " PID 77 RUNNING AT n001\n=   KILLED BY SIGNAL: 9 (Killed)\n";
    };
    const auto log =
        write("job.log", "=   RANK 4 PID 7 RUNNING AT n001\n=   EXIT STATUS: 5\n" + killed(5) + killed(6));
    const auto said = explained({log});
    ASSERT_EQ(said.notes.size(), 1U);
    EXPECT_TRUE(said.notes[0].starts_with("ranks {5, 6} were killed by signal 9")) << said.notes[0];
}

TEST_F(LogFolder, CallsOfSeveralGroupsWithoutNamesAreNotCompared) {
    const auto timed_out = [](int rank, int number) {
        return "[E ProcessGroupNCCL.cpp:458] [Rank " + std::to_string(rank) +
               "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + std::to_string(number) +
               ", OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800887 milliseconds before timing out.\n";
    };
    const auto one = explained({write("one.log", timed_out(0, 96120) + timed_out(1, 64088))});
    ASSERT_FALSE(one.findings.empty());
    EXPECT_EQ(one.findings[0].kind, Finding::Kind::behind);
    const auto several =
        explained({write("several.log", timed_out(0, 96120) + timed_out(0, 96117) + timed_out(1, 64088))});
    ASSERT_FALSE(several.findings.empty());
    EXPECT_EQ(several.findings[0].kind, Finding::Kind::failed);
}

TEST_F(LogFolder, AFile_IsWhatItsContentIs) {
    write("rank-0.json", "hello\n");
    write("rank-1.json", "[rank3]: ValueError: x\n");
    write("rank-2.json", std::string("\0\1", 2));
    write("worker_rank_7.err", "ValueError: y\n");
    write("rank-8.json", "{\"rank\":8,\"msg\":\"ValueError: z\"}\n{}\n");
    write("rank-8.log.jsonl", "{}\n{\"rank\":6,\"msg\":\"ValueError: w\"}\n");
    write("rank-4.txt", std::string(100'000, '\0') + "[rank4]: ValueError: cut\n");
    write("rank-5.txt", "{'loss': 1.0}\n[rank5]: ValueError: v\n");
    auto metrics = std::string{};
    for (int step = 0; step < 9000; ++step) metrics += "{\"step\": 1}\n";
    write("rank-7.jsonl", metrics + "[rank7]: ValueError: late\n");
    write("rank-9.log.utf", "\xff\xfe[\0");
    write("rank-9.log.gz", "\x1f\x8b\x08...");
    write("rank-9.log.zst", "\x28\xb5\x2f\xfd...");
    const auto found = read_records({folder_.string()});
    auto ranks = std::vector<int>{};
    for (const auto& record : found.records) ranks.push_back(record.rank);
    EXPECT_EQ(ranks, (std::vector<int>{3, 4, 5, 6, 7, 8}));
    ASSERT_EQ(found.unread.size(), 5U);
    EXPECT_EQ(found.unread[4].why,
              "rank-9.log.zst is compressed by zstd: run `zstdcat rank-9.log.zst > rank-9.log.zst.txt` and "
              "explain rank-9.log.zst.txt");
    EXPECT_EQ(found.unread[3].why,
              "rank-9.log.utf is UTF-16: run `iconv -f UTF-16 -t UTF-8 rank-9.log.utf > rank-9.log.utf.txt` "
              "and explain rank-9.log.utf.txt");
    EXPECT_EQ(found.unread[2].why,
              "rank-9.log.gz is compressed by gzip: run `zcat rank-9.log.gz > rank-9.log.gz.txt` and explain "
              "rank-9.log.gz.txt");
    EXPECT_EQ(found.unread[0].why, "rank-0.json has no line that explain knows");
    EXPECT_EQ(found.unread[1].why, "rank-2.json is no JSON from byte 1 on");
    EXPECT_EQ(found.unread[0].rank, 0);
}

}  // namespace
}  // namespace rankmesh::tests
