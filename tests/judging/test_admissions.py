"""Failures that a final answer admits, and answers that only speak of failures."""

import json
from pathlib import Path

import pytest

from relight.judging.admissions import find_admission, find_cues, list_clauses, read_admission_table
from relight.judging.outcomes import SILENT

# Written by somebody who had not seen the rules. The rules were made with these answers, so the
# counts below show that nothing was lost, and not how good the rules are for other answers.
ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "answers.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(
    "answer",
    [
        "I was unable to complete the task: the disk is full.",
        "I'm sorry, but I could not complete the report.",
        "⚠️ API call failed after 3 retries: HTTP 500",
        "Task failed: no such table",
        "The nightly backup failed.",
        "**Error:** no key",
        "❌ Backup did not run",
        "# Nightly backup\n\nThe backup script exited with code 1, so nothing was backed up.",
        "Status: FAILED. The sync did not run because ssh timed out.",
        "**Status:** FAILED",
        "| Overall status | ❌ failed |",
        "Script timed out after 60 seconds.",
        "Result: the deploy command failed (connection refused). Nothing was deployed.",
        "I couldn't run the check since the tool returned an error.",
        "Sorry, I can't help with that.",
        "**Summary**\n\nTask could not be completed because the repository is missing.",
        "Report: everything checked. Note that the script failed to run with exit code 1.",
        "Yesterday's backup worked, but today it failed: nothing was saved.",
        '{"job": "backup", "status": "failed"}',
        "Die Sicherung konnte nicht abgeschlossen werden.",
        "La sauvegarde a échoué : le disque est plein.",
        "No se pudo completar la copia.",
        "Não foi possível enviar o relatório.",
        "部署失败:镜像拉取超时。",
        "レポートの作成に失敗しました。",
    ],
)
def test_an_answer_that_says_it_failed_is_found(answer: str) -> None:
    assert find_admission(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        SILENT,
        "All good: three errors were fixed.",
        "I was able to complete the task.",
        "Report\n\nError: 3 rows were skipped, the rest is in.",
        "The job failed yesterday but ran today.",
        "… yesterday the backup failed but today it is fine.",
        "Nothing failed.",
        "Failure rates fell by 3 %.",
        "Tests: 0 failed, 90 passed, 90 total",
        "The log:\n\n```\nERROR: the backup failed\nStatus: FAILED\n```\n\nAll is well.",
        'I put "The backup could not be completed" into the message catalogue.',
        "> We could not deliver your parcel.\n\nThat is the draft of the reply.",
        "If the deploy fails, run `make rollback`.",
        "The first attempt failed with a stale lock; after removing it the upgrade went through.",
        "❌ ~~NPS~~ (left out, as agreed)\n\nThe dashboard is published.",
    ],
)
def test_an_answer_about_failures_is_not_one(answer: str) -> None:
    assert find_admission(answer) is None


def test_the_sentence_that_admits_the_failure_is_the_evidence() -> None:
    answer = "**Nightly run**\n\n- Lint: fine\n- The upload was *not* started: the key is missing."
    assert find_admission(answer) == "The upload was not started: the key is missing."


def test_the_failures_that_a_task_is_about_are_not_the_runs() -> None:
    answer = "The build failed because the disk of the runner was full."
    assert find_admission(answer, "Build the image.")
    assert find_admission(answer, "Why is CI red? Analyse the build of last night.") is None


def test_answers_by_a_writer_who_had_not_seen_the_rules_are_judged_as_counted() -> None:
    hits = {row["id"] for row in ANSWERS if find_admission(row["text"], row["task"]) is not None}
    admitting = {row["id"] for row in ANSWERS if row["admits_failure"]}
    assert (len(ANSWERS), len(admitting)) == (100, 46)
    assert (len(hits & admitting), sorted(hits - admitting), sorted(admitting - hits)) == (
        46,
        [],
        [],
    )


def test_every_clause_that_a_cue_finds_has_one_of_its_words() -> None:
    table = read_admission_table()
    without = [
        (cue.name, clause.plain)
        for row in ANSWERS
        for clause in list_clauses(row["text"])
        for cue in table.cue
        if cue.words and cue.words.isdisjoint(clause.words) and cue.matches(clause)
    ]
    assert without == []


def test_hints_alone_admit_nothing() -> None:
    answer = "Sorry for the delay. Please renew the token, it has expired. I'd need your approval."
    assert find_cues(answer) == []


@pytest.mark.parametrize("part", ["not " * 5000, "the task " * 3000, "no " * 6000 + "x" * 9000])
def test_a_long_answer_without_sentences_is_read_to_its_end(part: str) -> None:
    assert find_admission(f"{part}\nStatus: FAILED")
