-- which sessions some days have is told by the index alone
drop index session_day_by_day;
create index session_day_by_day on session_day (day, root_id);
-- every order of a list is one that stands ready
create index listing_by_duration on listing (wall_ms);
create index listing_by_turns on listing (turns);
create index listing_by_tokens on listing (tokens);
create index listing_by_failures on listing (tool_failures);
