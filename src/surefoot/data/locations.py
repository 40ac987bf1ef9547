"""Where files are: paths of this machine, and URLs of the stores that fsspec knows (`s3://…`, `gs://…`, `file://…`)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from surefoot.errors import InputError

SIGN = "://"
"""What a URL has and a path has not."""
AT_ONCE = 32
"""How many files of a store are asked for at once: each answer may take some hundredths of a second."""
Found = TypeVar("Found")


@dataclass(frozen=True, order=True)
class Url:
    """A file or a folder of a store; what is here of `Path`'s methods does what it does there.

    A store may have neither renaming, locks nor folders of their own: a folder is there while a file is in it.
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> Url:
        return Url(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[1]

    @property
    def parent(self) -> Url:
        return Url(self.url.rsplit("/", 1)[0])

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        return PurePosixPath(self.name).suffixes

    def relative_to(self, folder: Url) -> PurePosixPath:
        return PurePosixPath(self.url.removeprefix(f"{folder.url}/"))

    def is_file(self) -> bool:
        with self._reach() as (store, path):
            return bool(store.isfile(path))

    def is_dir(self) -> bool:
        with self._reach() as (store, path):
            return bool(store.isdir(path))

    def exists(self) -> bool:
        with self._reach() as (store, path):
            return bool(store.exists(path))

    def rglob(self, pattern: str) -> list[Url]:
        """In one request for the whole folder, in the order of the names."""
        with self._reach() as (store, path):
            found = [self / file.removeprefix(path).lstrip("/") for file in sorted(store.find(path))]
        return [file for file in found if PurePosixPath(file.name).match(pattern)]

    def size(self) -> int:
        with self._reach() as (store, path):
            return int(store.size(path) or 0)

    def open(self, mode: str = "rb") -> Any:
        with self._reach() as (store, path):
            return store.open(path, mode)

    def read_bytes(self) -> bytes:
        with self._reach() as (store, path):
            return bytes(store.cat_file(path))

    def read_text(self, encoding: str) -> str:
        return self.read_bytes().decode(encoding)

    def read_files(self) -> dict[str, bytes]:
        """The content of all files of a folder by their names, asked for at once."""
        with self._reach() as (store, path):
            files = store.find(path)
            content = store.cat(files) if files else {}
        return {file.rsplit("/", 1)[1]: data for file, data in content.items()}

    def write_bytes(self, data: bytes) -> None:
        with self._reach() as (store, path):
            try:
                store.pipe_file(path, data)
            except FileNotFoundError:  # Stores of objects need no folder, and to ask for one costs a request.
                store.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
                store.pipe_file(path, data)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files of this folder, and folders in it with all that is in them."""
        with self._reach() as (store, path):
            if names:
                store.rm([f"{path}/{name}" for name in names], recursive=True)

    def check_top(self) -> None:
        """Refuse a place whose bucket, or whatever is at the top, is not there: writing would make one of a wrong name."""
        with self._reach() as (store, path):
            top = path[: len(path) - len(path.lstrip("/"))] + path.lstrip("/").split("/")[0]
            if top != path and not store.exists(top):
                raise InputError(f"{self}: there is no {top} there; make it first, or check the name")

    def connect(self) -> tuple[Any, str]:
        """The store as fsspec's object, and what this place is called there."""
        protocol = self.url.split(SIGN)[0]
        try:
            from fsspec.core import url_to_fs
            from fsspec.registry import known_implementations
        except ImportError:
            raise InputError(f"{self}: a URL needs fsspec; install it with: pip install 'surefoot[cluster]'") from None
        try:
            store, path = url_to_fs(self.url)
        except ImportError as error:
            module = known_implementations[protocol]["class"].split(".")[0]
            package = f"'fsspec[{protocol}]'" if module == "fsspec" else module
            raise InputError(f"{self}: {error}; install it with: pip install {package}") from error
        except ValueError as error:
            raise InputError(f"{self}: {error}; write a path, or a URL as s3://bucket/folder") from error
        return store, path

    @contextmanager
    def _reach(self) -> Iterator[tuple[Any, str]]:
        """The store, without what it remembers of its lists: others write there too. Its refusals name the place."""
        store, path = self.connect()
        store.invalidate_cache()
        try:
            yield store, path
        except (FileNotFoundError, InputError):
            raise
        except Exception as error:  # Every store has errors of its own.
            raise OSError(errno.EIO, f"{error}; check address, credentials and network", str(self)) from error


Location = Path | Url


def locate(where: str | Location) -> Location:
    """What has `://` is a URL, all else a path.

    >>> locate("s3://trial/logs/"), str(locate("logs/"))
    (Url(url='s3://trial/logs'), 'logs')
    """
    if isinstance(where, str) and SIGN in where:
        return Url(where.rstrip("/"))
    return where if isinstance(where, Url) else Path(where)


def find_store(location: Location) -> tuple[Path | str, Any]:
    """What pyarrow takes as the name of a file or folder, and as its file system."""
    if isinstance(location, Url):
        store, path = location.connect()
        return path, store
    return location, None


def find_size(file: Location) -> int:
    """Bytes; 0 where the store does not tell."""
    return file.size() if isinstance(file, Url) else file.stat().st_size


def map_files(work: Callable[[Location], Found], files: Sequence[Location]) -> Iterator[Found]:
    """What some work finds in each of the files, in their order; a store is asked for several at once."""
    if not any(isinstance(file, Url) for file in files):
        yield from map(work, files)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(work, files)


def list_parquet(folder: Any) -> list[Location]:
    """The Parquet files of a folder and of those in it, in the order of their names; hidden ones are left alone."""
    found = sorted(folder.rglob("*.parquet"))
    return [file for file in found if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)]
