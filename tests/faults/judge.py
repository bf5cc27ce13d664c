# SPDX-License-Identifier: Apache-2.0
"""faults.py draws the same jobs from the same seed, and tells the ends of jobs apart. Nothing is started."""
import sys

sys.dont_write_bytecode = True
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import faults

SECOND = 1_000_000_000


def job_of(kind, engine="gloo", moment="step", checked=False):
    """Three ranks, of which 1 is the victim, at the second of three calls that all of them make."""
    job = faults.Job(engine, checked, seed=0, number=0, timeout=2000, dp=3, kind=kind, moment=moment, victim=1, at=1)
    job.steps = [{"axes": "dp", "operation": "all_reduce", "root": 0, "how": "blocking"} for _ in range(3)]
    job.victim_steps = list(job.steps)
    return job


def error(kind, ranks, step=1, seconds=0.1, text="a text"):
    return {"event": "error", "type": kind, "phase": "step" if step >= 0 else "join", "step": step, "ranks": ranks,
            "began": 0, "ns": int(seconds * SECOND), "text": text}


def judge(job, events, codes=None, text="", hung=(), left=()):
    """The class of an end where rank 1 puts the fault into effect at the time 0."""
    codes = codes or {rank: 1 for rank in range(job.ranks)}
    events = {rank: [event] if event else [] for rank, event in events.items()}
    events[1] = [{"event": "fault", "step": 1, "ns": 0}] + events.get(1, [])
    return faults.judge(job, faults.Outcome(events, codes, text, 1.0, list(hung), left=list(left)))[0]


class Judge(unittest.TestCase):
    def test_a_loss_is_right_where_all_survivors_name_the_victim_at_once(self):
        job, lost = job_of("kill"), error("PeerLost", [1])
        self.assertEqual(judge(job, {0: lost, 2: lost}), "")
        follows = {0: lost, 2: error("PeerLost", [0], seconds=0.2)}
        self.assertEqual(judge(job, follows), "E", "rank 0 passes on why it ends")
        self.assertEqual(judge(job_of("kill", engine="nccl"), follows), "E")
        self.assertEqual(judge(job, {0: lost, 2: error("PeerLost", [])}), "E")
        self.assertEqual(judge(job, {0: lost, 2: error("Disagreement", [1])}), "E")
        self.assertEqual(judge(job, {0: lost, 2: error("EngineFailure", [1])}), "E")
        self.assertEqual(judge(job, {0: lost, 2: error("PeerLost", [1], seconds=1.9)}), "L")
        self.assertEqual(judge(job, {0: lost, 2: error("Timeout", [1], seconds=2)}), "L")
        self.assertEqual(judge(job, {0: lost, 2: {"event": "ok"}}), "S")
        self.assertEqual(judge(job, {0: lost}), "C")
        self.assertEqual(judge(job, {0: lost, 2: lost}, codes={0: 1, 1: -9, 2: -6}), "C")
        self.assertEqual(judge(job, {0: lost, 2: {"event": "wrong"}}), "W")
        self.assertEqual(judge(job, {0: lost, 2: lost}, hung=[7]), "H")
        self.assertEqual(judge(job, {0: lost, 2: lost}, left=[7]), "O")

    def test_in_a_join_nobody_but_the_victim_is_named(self):
        job, lost = job_of("kill", moment="join"), error("PeerLost", [1], step=-1)
        self.assertEqual(judge(job, {0: lost, 2: lost}), "")
        self.assertEqual(judge(job, {0: lost, 2: error("PeerLost", [0], step=-1, seconds=0.2)}), "E")
        self.assertEqual(judge(job, {0: lost, 2: error("Timeout", [0, 1], step=-1, seconds=2)}), "E")

    def test_a_mismatch_is_a_disagreement_on_all_members_where_it_is_noticed(self):
        differs = error("Disagreement", [1])
        for job in (job_of("length", checked=True), job_of("type", engine="threads"), job_of("parts", checked=True), job_of("tag", engine="threads")):
            self.assertEqual(judge(job, {0: differs, 1: differs, 2: differs}), "")
            self.assertEqual(judge(job, {0: differs, 1: differs, 2: error("PeerLost", [0], seconds=0.2)}), "E")
            self.assertEqual(judge(job, {0: differs, 1: differs, 2: error("Disagreement", [2])}), "E")
            self.assertEqual(judge(job, {0: differs, 1: differs, 2: {"event": "wrong"}}), "W")
        unchecked = job_of("length")
        self.assertEqual(judge(unchecked, {0: differs, 1: {"event": "ok"}, 2: {"event": "wrong"}}), "U")
        self.assertEqual(judge(unchecked, {rank: {"event": "ok"} for rank in range(3)}, codes={0: 0, 1: 0, 2: 0}), "U")
        self.assertEqual(judge(unchecked, {0: error("PeerLost", [1]), 1: error("PeerLost", [2]), 2: None}), "C")
        self.assertEqual(judge(unchecked, {0: error("PeerLost", [1]), 1: None, 2: None}, text="rankmesh: a report"), "")

    def test_in_checked_mode_a_group_that_waits_on_one_communicator_does_not_wait_for_its_timeout(self):
        differs, missed = error("Disagreement", [1], text="rank 1"), error("Timeout", [1], seconds=2, text="rank 1")
        job = job_of("skip", checked=True)
        self.assertEqual(judge(job, {rank: differs for rank in range(3)}), "")
        self.assertEqual(judge(job, {rank: missed for rank in range(3)}), "L")
        self.assertEqual(judge(job_of("skip"), {rank: missed for rank in range(3)}), "")
        job.victim_steps[1] = job.victim_steps[1] | {"operation": "message"}
        self.assertEqual(judge(job, {rank: missed for rank in range(3)}), "L")
        job.steps = [step | {"operation": "message"} for step in job.steps]  # none waits in a collective
        self.assertEqual(judge(job, {rank: missed for rank in range(3)}), "")
        job = job_of("skip", checked=True)
        job.victim_steps[1] = job.victim_steps[1] | {"axes": "tp"}  # it waits elsewhere
        self.assertEqual(judge(job, {rank: missed for rank in range(3)}), "")

    def test_a_process_that_the_fake_nccl_ends_is_not_noticed_where_calls_differ_and_wrong_elsewhere(self):
        violation, lost = "fake nccl: violation: ncclAllReduce", error("PeerLost", [1])
        codes = {0: -6, 1: -6, 2: 1}
        self.assertEqual(judge(job_of("type", engine="nccl"), {0: None, 2: lost}, codes, violation), "U")
        self.assertEqual(judge(job_of("type", engine="nccl"), {0: None, 2: lost}, codes), "C")
        self.assertEqual(judge(job_of("type", engine="nccl", checked=True), {0: None, 2: lost}, codes, violation), "C")
        self.assertEqual(judge(job_of("kill", engine="nccl"), {0: None, 2: lost}, codes, violation), "C")

    def test_nccl_gets_no_scan_that_it_has_not_and_waits_for_its_last_call(self):
        for job in (faults.draw("nccl", False, 7, number, 2000) for number in range(300)):
            for step in job.steps + job.victim_steps:
                self.assertFalse(step["operation"] in faults.SCANS and step["reduction"] == "max", job.command())
                self.assertNotEqual(step["operation"], "reproducible_sum", job.command())
            self.assertEqual(job.steps[-1]["how"], "started")

    def test_a_rank_that_goes_on_after_the_others_have_given_it_up_is_told_as_well(self):
        for kind in ("stop", "cut"):
            job, missed = job_of(kind), error("Timeout", [1], seconds=2)
            self.assertEqual(judge(job, {0: missed, 1: error("Timeout", [0, 2], seconds=4), 2: missed}), "")
            self.assertEqual(judge(job, {0: missed, 1: error("PeerLost", [0], seconds=4), 2: missed}), "")
            self.assertEqual(judge(job, {0: missed, 1: error("Timeout", [], seconds=4), 2: missed}), "E")
            self.assertEqual(judge(job, {0: missed, 1: None, 2: missed}), "C")
            self.assertEqual(judge(job, {0: missed, 1: {"event": "ok"}, 2: missed}), "S")

    def test_of_a_link_that_is_cut_in_a_join_both_sides_tell_the_truth(self):
        job, missed = job_of("cut", moment="join"), error("Timeout", [1], step=-1, seconds=2)
        told = error("Timeout", [0], step=-1, seconds=2, text="expired in join on rank 1: arrived ranks {1, 2}, missing rank 0")
        own = error("Timeout", [0, 2], step=-1, seconds=2)
        self.assertEqual(judge(job, {0: missed, 1: own, 2: told}), "")
        self.assertEqual(judge(job, {0: missed, 1: own, 2: told | {"text": "expired in join on rank 0"}}), "E")

    def test_a_child_that_goes_on_is_told_that_it_is_no_rank(self):
        well, child = {rank: {"event": "ok"} for rank in range(3)}, error("UsageError", []) | {"phase": "child"}
        for said, right in (([child], ""), ([], "C"), ([child | {"type": "Timeout"}], "E"), ([child, child], "E")):
            events = {rank: [well[rank]] for rank in range(3)}
            events[1] = [{"event": "fault", "step": 1, "ns": 0}, *said, well[1]]
            outcome = faults.Outcome(events, {rank: 0 for rank in range(3)}, "", 1.0, [])
            self.assertEqual(faults.judge(job_of("child"), outcome)[0], right)

    def test_who_meets_a_limit_says_so_and_the_others_name_it(self):
        job, lost = job_of("descriptors", moment="join"), error("PeerLost", [1], step=-1)
        own = error("Error", [], step=-1, text="no socket can be opened here")
        self.assertEqual(judge(job, {0: lost, 1: own, 2: lost}), "")
        self.assertEqual(judge(job, {0: lost, 1: own, 2: error("PeerLost", [0], step=-1)}), "E")
        self.assertEqual(judge(job, {0: lost, 1: None, 2: lost}), "C")
        self.assertEqual(judge(job, {0: lost, 1: own | {"type": "other"}, 2: lost}), "E")
        self.assertEqual(judge(job, {rank: {"event": "ok"} for rank in range(3)}, {rank: 0 for rank in range(3)}), "",
                         "it was not met")

    def test_a_job_without_a_fault_ends_well(self):
        well = {rank: {"event": "ok"} for rank in range(3)}
        self.assertEqual(judge(job_of("pause"), well, codes={0: 0, 1: 0, 2: 0}), "")
        self.assertEqual(judge(job_of("pause"), well, codes={0: 0, 1: 0, 2: -6}), "C")
        self.assertEqual(judge(job_of("pause"), well | {2: error("Timeout", [1])}), "E")
        late = faults.Outcome({rank: [event] for rank, event in well.items()}, {0: 0, 1: 0, 2: 0}, "", 1.0, [])
        for kind in ("kill", "stop"):  # the moment never came
            self.assertEqual(faults.judge(job_of(kind, moment="in-join"), late)[0], "")

    def test_a_job_of_mpi_ends_in_an_error_that_names_the_victim(self):
        job, code = job_of("stop", engine="mpi"), {-1: 1}
        said = "rankmesh: the timeout of 2 s expired on rank 0 in barrier, missing %s; the job is ended"
        for names in ("rank 1", "rank 1 [dp=1 tp=0]", "ranks {0..1}"):
            self.assertEqual(judge(job, {}, code, said % names), "", names)
        self.assertEqual(judge(job, {}, code, said % "rank 2"), "E")
        self.assertEqual(judge(job, {}, code, ""), "C")
        self.assertEqual(judge(job, {}, {-1: 0}, said % "rank 1"), "S")
        self.assertEqual(judge(job, {2: {"event": "ok"}}, code, said % "rank 1"), "S")

    def test_two_ranks_whose_calls_differ_on_mpi_are_both_told(self):
        job = job_of("root", engine="mpi")
        said = "rankmesh: call number 2 on 'dp' of mesh dp=2, group {0, 1}, is not the same on all its ranks: ..."
        self.assertEqual(judge(job, {}, {-1: 1}, said), "E")
        job.dp = 2
        self.assertEqual(judge(job, {}, {-1: 1}, said), "")

    def test_a_seed_is_a_job(self):
        drawn = [[faults.draw(engine, False, 7, number, 2000) for number in range(200)] for engine in faults.ENGINES]
        self.assertEqual(drawn, [[faults.draw(engine, False, 7, number, 2000) for number in range(200)] for engine in faults.ENGINES])
        self.assertNotEqual(drawn[1][0], faults.draw("gloo", False, 8, 0, 2000))
        rare = [faults.draw(engine, False, 7, number, 2000, rare=True) for engine in ("gloo", "mpi") for number in range(200)]
        self.assertTrue(all(job.kind in (*faults.RARE[job.engine], "none") for job in rare))
        drawn.append(rare)
        for kind in faults.RIGHT:
            self.assertTrue(any(job.kind == kind for jobs in drawn for job in jobs), kind)
        for job in sum(drawn, []):
            same = job.kind in ("operation", "length", "type", "root", "reduction", "skip", "twice", "swap", "started", "early")
            if same and job.moment in ("", "step"):
                self.assertNotEqual(job.steps, job.victim_steps, job.command())
            self.assertLess(job.victim, job.ranks)


if __name__ == "__main__":
    unittest.main()
