-- What a session stumbled over, and what worked after it (judging/stumbles.py), read from its tape when
-- lessons are first asked for. `found` is JSON, null if the tape is gone. A session that has grown
-- since `read_to`, its last moment then, is read again, and so is one that other `rules` read.
create table stumble_reading (
    session_id integer primary key,
    read_to integer not null,
    rules integer not null,
    found text
) strict;
