"""How far each file has been read; an import with nothing new needs no more than this."""

from relight.ids import row_id
from relight.model import Mark, Origin
from relight.store import Store


def read_seen(store: Store, source: str) -> dict[str, Origin]:
    """The files of a source by path, as they were when last read."""
    rows = store.query(
        "select path, size, modified_ns, inode from origin join file_mark on origin_id = origin.id"
        " where source = ? and part = ''",
        (source,),
    )
    return {row[0]: Origin(*row) for row in rows}


def read_marks(store: Store, source: str, path: str) -> dict[str, Mark]:
    """The marks of one file, by part: '' for the file, a session's id inside a database."""
    rows = store.query(
        "select part, size, modified_ns, inode, position, generation, head, state"
        " from file_mark where origin_id = ?",
        (row_id("origin", source, path),),
    )
    return {
        part: Mark(
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
        for part, size, modified_ns, inode, offset, generation, head, state in rows
    }
