"""Encrypted files: what age's other implementation writes and reads, in pieces, and nothing of a damaged one."""

import io
import os
import tracemalloc
import zipfile

import pyrage
import pytest

from surefoot.service.operations import encrypted_files
from surefoot.service.operations.encrypted_files import PIECE, TAG, encrypt_file, is_encrypted, open_encrypted

PASSPHRASE = "correct horse battery"  # noqa: S105 - of tests


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(encrypted_files, "WORK", 8)


@pytest.fixture
def write(tmp_path):
    def write_file(content):
        path = tmp_path / "content.age"
        with encrypt_file(path, PASSPHRASE) as stream:
            stream.write(content)
        return path

    return write_file


def read(path, passphrase=PASSPHRASE):
    with open_encrypted(path, passphrase) as reader:
        return reader.read()


@pytest.mark.parametrize("size", [0, 1, 2, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 5])
def test_rage_reads_what_we_write(write, size):
    content = os.urandom(size)
    path = write(content)
    assert is_encrypted(path)
    assert pyrage.passphrase.decrypt(path.read_bytes(), PASSPHRASE) == content
    assert read(path) == content


def test_we_read_what_rage_writes(tmp_path):
    content = os.urandom(PIECE + 5)
    path = tmp_path / "theirs.age"
    path.write_bytes(pyrage.passphrase.encrypt(content, PASSPHRASE))
    assert read(path) == content


def test_any_position_can_be_read(write):
    content = os.urandom(2 * PIECE + 100)
    with open_encrypted(write(content), PASSPHRASE) as reader:
        assert reader.seek(-10, io.SEEK_END) == len(content) - 10
        assert reader.read() == content[-10:] and reader.read(5) == b""
        for position in (PIECE - 3, 0, 2 * PIECE, PIECE):
            reader.seek(position)
            piece = reader.read(7)
            assert piece and content[position:].startswith(piece)
            assert reader.tell() == position + len(piece)
        with pytest.raises(OSError, match="before the beginning"):
            reader.seek(-1)


def test_an_archive_whose_headers_lie_over_the_ends_of_pieces(write):
    """Every offset of a header of 30 bytes and more before the end of the first piece."""
    for size in range(PIECE - 120, PIECE, 7):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("first", os.urandom(size))
            file.writestr("second", b"content")
        with open_encrypted(write(archive.getvalue()), PASSPHRASE) as reader, zipfile.ZipFile(reader) as file:
            assert file.testzip() is None and file.read("second") == b"content"


def swap_pieces(data):
    begin = len(data) - (2 * (PIECE + TAG) + 100 + TAG)
    first = data[begin : begin + PIECE + TAG]
    second = data[begin + PIECE + TAG : begin + 2 * (PIECE + TAG)]
    return data[:begin] + second + first + data[begin + 2 * (PIECE + TAG) :]


DAMAGES = {
    "a bit of the content": lambda data: data[:-200] + bytes([data[-200] ^ 1]) + data[-199:],
    "the end is missing": lambda data: data[: -100 - TAG],
    "the last byte is missing": lambda data: data[:-1],
    "pieces in another order": swap_pieces,
    "something was added": lambda data: data + b"x",
    "a letter of the header": lambda data: data.replace(b"scrypt ", b"scrypt A", 1)[: len(data)],
    "the cost of another passphrase": lambda data: data.replace(b" 8\n", b" 9\n", 1),
    "nothing after the header": lambda data: data[: data.index(b"---") + 48],
    "half a header": lambda data: data[:40],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_file_is_refused(write, damage):
    path = write(os.urandom(2 * PIECE + 100))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"content\.age: (cannot be decrypted|encrypted in another way)"):
        read(path)


def test_another_passphrase_and_another_way_are_refused(write, tmp_path):
    with pytest.raises(ValueError, match="the passphrase is not the one"):
        read(write(b"content"), "wrong horse battery")
    key = pyrage.x25519.Identity.generate()
    (tmp_path / "key.age").write_bytes(pyrage.encrypt(b"content", [key.to_public()]))
    with pytest.raises(ValueError, match="encrypted in another way than by a passphrase"):
        read(tmp_path / "key.age")
    greedy = write(b"content")
    greedy.write_bytes(greedy.read_bytes().replace(b" 8\n", b" 30\n", 1))
    with pytest.raises(ValueError, match="needs over 4 GiB"):
        read(greedy)


def test_memory_does_not_grow_with_the_file(tmp_path):
    piece = os.urandom(100_000)
    path = tmp_path / "large.age"
    tracemalloc.start()
    with encrypt_file(path, PASSPHRASE) as stream:
        for _ in range(200):
            stream.write(piece)
    with open_encrypted(path, PASSPHRASE) as reader:
        assert sum(len(data) for data in iter(lambda: reader.read(100_000), b"")) == 200 * len(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
