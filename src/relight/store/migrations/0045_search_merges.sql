-- Each portion of the search index that a transaction writes is merged only with 63 others: an import
-- then merges little of what it writes, and no transaction is so large that it writes several portions.
insert into search_words (search_words, rank)
values ('automerge', 0), ('crisismerge', 64), ('hashsize', 16777216);
