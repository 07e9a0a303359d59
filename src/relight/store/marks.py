"""How far each file has been read; an import with nothing new needs no more than this."""

from relight.model import Mark
from relight.store import Store


def read_marks(store: Store, source: str) -> dict[str, dict[str, Mark]]:
    """Every mark of a source, by path and part."""
    rows = store.query(
        "select path, part, size, modified_ns, inode, offset, generation, head, state"
        " from file_mark join origin on origin.id = origin_id where source = ?",
        (source,),
    )
    marks: dict[str, dict[str, Mark]] = {}
    for path, part, size, modified_ns, inode, offset, generation, head, state in rows:
        marks.setdefault(path, {})[part] = Mark(
            path=path,
            part=part,
            size=size,
            modified_ns=modified_ns,
            inode=inode,
            offset=offset,
            generation=generation,
            head=head,
            state=state,
        )
    return marks
