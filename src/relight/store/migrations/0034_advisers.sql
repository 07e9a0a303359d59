-- the sessions of mixtures, among all others
create index turn_adviser on turn (session_id) where role = 'reference';
