"""Where in the whole database a text stands: every table, every column of text, JSON or bytes, partitions included."""

from sqlalchemy import Connection, text

_COLUMNS = text("""
    SELECT c.relname, a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2
""")


def places_of(connection: Connection, mark: str) -> list[str]:
    """`table.column` of each place; bytes are looked at as they are and as hex."""
    found = []
    for table, column in connection.execute(_COLUMNS).all():
        cell = f'CAST("{column}" AS text)'
        values = {"mark": mark, "hex": mark.encode().hex()}
        query = f'SELECT count(*) FROM "{table}" WHERE strpos({cell}, :mark) > 0 OR strpos({cell}, :hex) > 0'
        if connection.scalar(text(query), values):
            found.append(f"{table}.{column}")
    return found
