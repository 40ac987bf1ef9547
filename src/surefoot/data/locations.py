"""Where files are: paths of this machine, and URLs of the stores that fsspec knows (`s3://…`, `gs://…`, `file://…`)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from surefoot.errors import InputError

AT_ONCE = 32
"""Simultaneous requests to a store, which may take some hundredths of a second each."""
Result = TypeVar("Result")


@dataclass(frozen=True, order=True)
class Url:
    """A file or a folder of a store, with the methods of `Path` that are used here.

    A store may have neither renaming, locks nor folders of its own: a folder exists while a file is in it.
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

    def relative_to(self, folder: Url) -> PurePosixPath:
        return PurePosixPath(self.url.removeprefix(f"{folder.url}/"))

    def is_file(self) -> bool:
        return self._reach(lambda store, path: bool(store.isfile(path)))

    def is_dir(self) -> bool:
        return self._reach(lambda store, path: bool(store.isdir(path)))

    def exists(self) -> bool:
        return self._reach(lambda store, path: bool(store.exists(path)))

    def size(self) -> int:
        return self._reach(lambda store, path: int(store.size(path) or 0))

    def open(self, mode: str = "rb") -> Any:
        return self._reach(lambda store, path: store.open(path, mode))

    def read_bytes(self) -> bytes:
        return self._reach(lambda store, path: bytes(store.cat_file(path)))

    def read_text(self, encoding: str) -> str:
        return self.read_bytes().decode(encoding)

    def rglob(self, pattern: str) -> list[Url]:
        """Files of the folder in the order of their names, with one request."""
        files = self._reach(lambda store, path: [file.removeprefix(path).lstrip("/") for file in sorted(store.find(path))])
        return [self / file for file in files if PurePosixPath(file).match(pattern)]

    def read_files(self) -> dict[str, bytes]:
        """The content of all files of a folder by their names, requested together."""
        files = self.rglob("*")
        return {file.name: data for file, data in zip(files, map_files(Url.read_bytes, files), strict=True)}

    def write_bytes(self, data: bytes) -> None:
        def write(store: Any, path: str) -> None:
            try:
                store.pipe_file(path, data)
            except FileNotFoundError:  # Object stores need no folder, and checking for one costs a request.
                store.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
                store.pipe_file(path, data)

        self._reach(write)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files and folders of this folder."""
        if names:
            self._reach(lambda store, path: store.rm([f"{path}/{name}" for name in names], recursive=True))

    def check_top(self) -> None:
        """Refuse a URL whose bucket does not exist: writing would create one with a mistyped name."""
        _, path = self.connect()
        top = path[: len(path) - len(path.lstrip("/"))] + path.lstrip("/").split("/")[0]
        if top != path and not self._reach(lambda store, _: store.exists(top)):
            raise InputError(f"{self}: there is no {top} there; make it first, or check the name")

    def connect(self) -> tuple[Any, str]:
        """The store as fsspec's object, and the path in it."""
        try:
            from fsspec.core import url_to_fs
            from fsspec.registry import known_implementations
        except ImportError:
            raise InputError(f"{self}: a URL needs fsspec; install it with: pip install 'surefoot[cluster]'") from None
        try:
            store, path = url_to_fs(self.url)
        except ImportError as error:
            protocol = self.url.split("://")[0]
            module = known_implementations[protocol]["class"].split(".")[0]
            package = f"'fsspec[{protocol}]'" if module == "fsspec" else module
            raise InputError(f"{self}: {error}; install it with: pip install {package}") from error
        except ValueError as error:
            raise InputError(f"{self}: {error}; write a path, or a URL as s3://bucket/folder") from error
        return store, path

    def _reach(self, work: Callable[[Any, str], Result]) -> Result:
        """Work on the store without its cached listings, because others write there too; its errors name the URL."""
        store, path = self.connect()
        store.invalidate_cache()
        try:
            return work(store, path)
        except FileNotFoundError:
            raise
        except Exception as error:  # Every store has its own errors.
            raise OSError(errno.EIO, f"{error}; check address, credentials and network", str(self)) from error


Location = Path | Url


def locate(address: str | Location) -> Location:
    """A URL if the text has `://`, else a path.

    >>> locate("s3://trial/logs/"), str(locate("logs/"))
    (Url(url='s3://trial/logs'), 'logs')
    """
    if isinstance(address, str) and "://" in address:
        return Url(address.rstrip("/"))
    return address if isinstance(address, Url) else Path(address)


def find_store(location: Location) -> tuple[Path | str, Any]:
    """The path and the file system as pyarrow takes them."""
    return location.connect()[::-1] if isinstance(location, Url) else (location, None)


def find_size(file: Location) -> int:
    """Bytes; 0 if the store does not know."""
    return file.size() if isinstance(file, Url) else file.stat().st_size


def map_files(work: Callable[[Any], Result], files: Sequence[Location]) -> Iterator[Result]:
    """Apply a function to every file, in order; files of a store are requested together."""
    if not any(isinstance(file, Url) for file in files):
        yield from map(work, files)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(work, files)


def list_parquet(folder: Any) -> list[Location]:
    """The Parquet files of a folder and its folders in the order of their names, without hidden ones."""
    files = sorted(folder.rglob("*.parquet"))
    return [file for file in files if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)]
