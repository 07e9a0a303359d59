"""Skills of scheduled sessions that left no words: their job names them."""

from collections.abc import Iterable

from msgspec import Struct

from relight.model import row_id
from relight.store.sql import Connection, insert, read, read_list, write_touched
from relight.store.write.sealed import SkillEntryRow

SCHEDULED = """
    select session.id, session.source, session.key, session.started_at, job.skills, (
        select coalesce(sum(messages), 0) from session_words where session_id = session.id
    ) as messages
    from session
    join run on run.session_id = session.id and run.source <> 'relight'
    join job on job.id = run.job_id
    where session.id in (select id from touched) and coalesce(job.skills, '[]') <> '[]'
"""


class ScheduledSession(Struct, frozen=True):
    """A session of a job with skills, and the number of messages in its record."""

    id: int
    source: str
    key: str
    started_at: int | None
    skills: str
    messages: int


def write_scheduled(database: Connection, judged: Iterable[int]) -> None:
    """Write the job's skills as entries of these sessions, as long as their records are empty.

    A scheduler that ends a run early leaves no prompt, and so no other record of its skills.
    """
    write_touched(database, judged)
    for session in read(database, ScheduledSession, SCHEDULED):
        rows = [
            SkillEntryRow(
                id=row_id("scheduled", session.source, session.key, name),
                session_id=session.id,
                skill_name=name,
                entry="cron",
                at=session.started_at,
                skill_version=None,
                turn_id=None,
            )
            for name in read_list(session.skills)
        ]
        database.executemany("delete from skill_entry where id = ?", [(row.id,) for row in rows])
        if not session.messages:
            insert(database, "skill_entry", rows)
