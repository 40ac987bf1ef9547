"""The tables of a fit's parts as one table: one file, or a folder of their files."""

from __future__ import annotations

from pathlib import Path

from surefoot.policies.policies import join_metadata

MERGED_PEOPLE = 2**15
"""The tables of at most so many people become one file: one process puts it together while all others wait."""


def merge_tables(folders: list[Path], out: Path, *, by_participant: bool) -> None:
    """One file: part after part, or sorted by participant."""
    import pyarrow as pa
    from pyarrow import parquet

    files = [folder / out.name for folder in folders]
    schemas = [parquet.read_schema(file) for file in files]
    described = all(b"surefoot" in (schema.metadata or {}) for schema in schemas)
    metadata = join_metadata([schema.metadata for schema in schemas]) if described else schemas[0].metadata
    schema = pa.unify_schemas(schemas, promote_options="permissive").with_metadata(metadata)
    if by_participant:
        table = pa.concat_tables([parquet.read_table(file).cast(schema) for file in files])
        parquet.write_table(table.sort_by("participant"), out)
        return
    with parquet.ParquetWriter(out, schema) as writer:
        for file in files:
            writer.write_table(parquet.read_table(file).cast(schema))


def move_tables(folders: list[Path], out: Path, *, by_participant: bool) -> None:
    """A folder of the parts' files as they are; participants are in order within each of them."""
    out.mkdir()
    for number, folder in enumerate(folders):
        (folder / out.name).rename(out / f"part-{number:06d}.parquet")
