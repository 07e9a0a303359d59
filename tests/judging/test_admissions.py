"""Failures that a final answer admits, and answers that only speak of failures."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.admissions import fit, read_answer, score

import build
from relight.judging.admissions import (
    Admission,
    admit,
    find_admission,
    hash_answer,
    list_clauses,
    list_features,
    read_admission_table,
)
from relight.judging.outcomes import SILENT, OutcomeEvidence, judge_outcome
from relight.model import Parsed, Session
from relight.store.write.seal import seal_parsed

# Sets by several writers who had not seen the rules, and examples of our own. The weights were
# fitted with all of them: the counts below show that nothing was lost, and not how good the rules
# are for other answers. `./dev bench admissions` shows that.
ANSWERS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "answers.jsonl").read_text("utf-8").splitlines()
]
EXAMPLES = [row for row in ANSWERS if row["set"] == "examples"]
WRITTEN = [row for row in ANSWERS if row["set"] != "examples"]


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row["text"][:40])
def test_an_example_is_judged_as_labelled(row: dict[str, Any]) -> None:
    found = find_admission(row["text"], row["task"])
    assert (found is not None) is row["admits_failure"], found


def test_silence_admits_nothing() -> None:
    assert find_admission("") is None
    assert find_admission(SILENT) is None


def test_the_sentence_that_admits_the_failure_is_the_evidence() -> None:
    answer = "**Nightly run**\n\n- Lint: fine\n- The upload was *not* started: the key is missing."
    assert find_admission(answer) == "The upload was not started: the key is missing."


def test_the_failures_that_a_task_is_about_are_not_the_runs() -> None:
    answer = "The build failed because the disk of the runner was full."
    assert find_admission(answer, "Build the image.")
    assert find_admission(answer, "Why is CI red? Analyse the build of last night.") is None


def test_answers_by_writers_who_had_not_seen_the_rules_are_judged_as_counted() -> None:
    pairs = [
        (find_admission(row["text"], row["task"]) is not None, row["admits_failure"])
        for row in WRITTEN
    ]
    assert (len(pairs), sum(admits for _, admits in pairs)) == (550, 271)
    counts = (pairs.count((True, True)), pairs.count((True, False)))
    assert counts == (263, 3)


def test_words_of_a_phrase_stand_for_classes_gaps_and_ends() -> None:
    table = read_admission_table()
    assert {"put ~ back", "^ WORK FAIL"} <= {one for cue in table.cue for one in cue.phrases}
    names = list_features(list_clauses("The import failed. I put all of the files back."))
    assert "cue put back" in names[1]
    assert "first failure words" in names[0]
    assert "last put back" in names[1]


def test_an_answer_at_the_threshold_is_judged_alike_in_every_process() -> None:
    program = (
        "from relight.judging.admissions import find_admission;"
        "print(find_admission('Handler;\\nPayload 5;\\nResult error timeout group.'))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(1, 5)
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("answer", "word"),
    [("3 of 40 hosts", "#part"), ("40/40 hosts", "#all"), ("0 of 2,115 readers", "#none")],
)
def test_a_share_is_one_word(answer: str, word: str) -> None:
    assert list_clauses(answer)[0].words[0] == word


def test_every_class_in_a_phrase_has_words() -> None:
    table = read_admission_table()
    names = {
        name
        for cue in table.cue
        for phrase in cue.phrases
        for name in phrase.split()
        if name.isupper() and name.isalpha()
    }
    assert names - {"ED"} <= table.classes.keys()


def test_a_fit_learns_what_distinguishes_answers() -> None:
    rows = [
        {"set": name, "task": None, "admits_failure": is_bad, "text": text}
        for name in ("one", "two")
        for is_bad, text in ((True, "Nothing was saved, sorry."), (False, "All files were saved."))
        for _ in range(3)
    ]
    bias, weights = fit([read_answer(row) for row in rows])
    bad, good = (score(read_answer(row).features, bias, weights) for row in (rows[0], rows[3]))
    assert bad > 0 > good


@pytest.mark.parametrize("part", ["not " * 5000, "the task " * 3000, "no " * 6000 + "x" * 9000])
def test_a_long_answer_without_sentences_is_read_to_its_end(part: str) -> None:
    clauses = list_clauses(f"{part}\nStatus: FAILED")
    assert clauses[-1].words == ("status", "failed")


def test_an_answer_is_read_where_it_is_sealed_and_judged_by_that() -> None:
    answer = "I could not finish: the build fails."
    ended = Session(key="one", ending="answer", answer=answer)
    going_on = Session(key="two", ending="call", answer="The upload failed.")
    parsed = Parsed(owner="one", state=b"", sessions=[ended, going_on])
    sealed = seal_parsed("codex", parsed, key=b"key", timezone="UTC")
    assert sealed.admissions == {hash_answer(answer): admit(answer)}
    known = OutcomeEvidence(ending="answer", answer="Done.", admission=Admission("It broke", None))
    assert "the answer says: It broke" in judge_outcome(known).evidence[0]


def test_an_import_that_judges_a_session_again_does_not_read_its_answer_again(
    tmp_path: Path,
) -> None:
    from relight.intake.importing import find_work
    from relight.intake.sealing import SealTask, seal_task
    from relight.store.write.record import Recorder

    answer = "I could not finish: the build fails."
    for name, at in (("one", 1), ("two", 90)):
        lines = [
            build.claude_prompt("Please make the tests of the parser pass.", at=at),
            build.claude_answer(f"{name}-1", {"type": "text", "text": answer}, at=at + 1),
        ]
        build.write_claude(tmp_path, [{**line, "sessionId": name} for line in lines], name=name)
    with build.open_home(tmp_path) as store:
        work = list(find_work(store, "claude-code", None, {"HOME": str(tmp_path)}))
        sealed = seal_task(SealTask(work, store.redaction_key, "UTC")).sealed
        sealed.sort(key=lambda one: str(one.after.path))
        admit.cache_clear()
        recorder = Recorder(store)
        for piece in sealed:
            recorder.record([piece])
        assert admit.cache_info().misses == 0
        ((evidence,),) = store.query("select outcome_evidence from session where key = 'one'")
    assert "asked again" in evidence
    assert f"the answer says: {answer}" in evidence
