-- Whoever sums a session anew takes its rows of the roll-up out and puts others in: what is listed
-- of it stays meanwhile, and goes when nothing is left of it (see rollup.py) or the session goes.
drop trigger session_day_taken;
create trigger session_day_taken after delete on session_day begin
    update listing set parts = parts - 1, turns = turns - old.turns,
        unpriced_turns = unpriced_turns - old.unpriced_turns,
        tokens = tokens - coalesce(old.input_tokens, 0) - coalesce(old.cache_read_tokens, 0)
            - coalesce(old.cache_write_tokens, 0) - coalesce(old.output_tokens, 0),
        cost_nanos = cost_nanos - old.cost_nanos,
        included_nanos = included_nanos - old.included_nanos,
        tool_calls = tool_calls - old.tool_calls,
        tool_failures = tool_failures - old.tool_failures, wall_ms = wall_ms - old.wall_ms
    where root_id = old.root_id;
end;
create trigger session_gone after delete on session begin
    delete from listing where root_id = old.id;
end;
create index listing_empty on listing (root_id) where parts = 0;

-- The words that lists are searched by, so that a rare one is found among a million sessions.
create virtual table listing_words using fts5 (
    words, content = 'listing', content_rowid = 'root_id', detail = 'none',
    tokenize = 'unicode61 remove_diacritics 2'
);
create trigger listing_added after insert on listing begin
    insert into listing_words (rowid, words) values (new.root_id, new.words);
end;
create trigger listing_taken after delete on listing begin
    insert into listing_words (listing_words, rowid, words)
    values ('delete', old.root_id, old.words);
end;
create trigger listing_reworded after update of words on listing when new.words <> old.words begin
    insert into listing_words (listing_words, rowid, words)
    values ('delete', old.root_id, old.words);
    insert into listing_words (rowid, words) values (new.root_id, new.words);
end;
insert into listing_words (listing_words) values ('rebuild');

-- the calls of a turn that a fork copied
create index tool_call_by_turn on tool_call (turn_id);
