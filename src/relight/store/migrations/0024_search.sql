-- Full-text search over what was said and done. The index holds words and no texts: a hit is shown
-- from the tape, and an entry is deleted by the text that the tape gives again.
create virtual table search_words using fts5 (
    words, path, tool, content = '', columnsize = 0,
    tokenize = 'unicode61 remove_diacritics 2'
);
-- fewer merges make an import cheaper: a third less for the index, for twice the time of a search
insert into search_words (search_words, rank) values ('automerge', 16), ('crisismerge', 32);

create table search_part (
    -- The entries of one session in one part of the tape. The number of an entry in search_words is
    -- place * 256 + its number in this part * 4 + its kind. A part of the tape without texts has
    -- a row too.
    place integer primary key,
    tape_part_id integer not null,
    session_id integer not null,
    texts integer not null,
    -- a hash of the texts, by which a text that was derived again is known to be the same
    checksum integer not null
) strict;
create index search_part_by_tape on search_part (tape_part_id);

-- parts of the tape with an id below this number are not in the index yet
insert into meta (key, value)
select 'search_below', cast(max(id) + 1 as text) from tape_part having max(id) is not null;
