-- The names of models that reports replace by a shorter one, so that all names of a model are one
-- row. Turns and sessions keep the full name; roll-ups and uses of skills have the short one.
create table model_alias (
    model text primary key,
    name text not null
) strict, without rowid;
