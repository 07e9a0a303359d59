-- The branch of the project's repository at each turn, where the record has it.
alter table turn add column branch text;
-- usage by the branch of the turns; the session's branch where turns have none
alter table session_day add column branch text;

create table file_edit (
    -- The files that a call changes, with the lines that it adds and removes. They belong to the
    -- call: its verdict says whether the edit was made, its turn what it cost.
    call_id integer not null,
    -- as the call names it, also relative to the session's folder
    path text not null,
    lines_added integer not null,
    lines_removed integer not null,
    primary key (call_id, path)
) strict, without rowid;
create index file_edit_by_path on file_edit (path);

create table git_commit (
    -- The commits that a call made. `hash` is as git printed it, '' if it printed none.
    call_id integer not null,
    hash text not null,
    branch text,
    primary key (call_id, hash)
) strict, without rowid;
create index git_commit_by_hash on git_commit (hash);

create trigger tool_call_deleted after delete on tool_call begin
    delete from file_edit where call_id = old.id;
    delete from git_commit where call_id = old.id;
end;
