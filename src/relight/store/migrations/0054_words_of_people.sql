-- Every event of a live session asks for the last words of a person: the index has no other rows.
create index session_words_of_people on session_words (session_id, position) where user_messages > 0;
