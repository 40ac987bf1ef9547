"""Files encrypted by a passphrase in the format of age (age-encryption.org/v1), written and read in pieces.

A file of any size needs the memory of one piece, and 256 MiB for the second in which the passphrase becomes a key. Other
threads go on meanwhile, so that a backup never holds up a decision. The format is that of the specification: a header with
the file's key, wrapped by scrypt, and the content in pieces of 64 KiB by ChaCha20-Poly1305, the last of them marked.
"""

import base64
import hmac
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from surefoot.errors import InputError

AGE = b"age-encryption.org/v1"
"""How an encrypted file begins."""
PIECE = 64 * 1024
TAG = 16
"""Bytes that each piece grows by."""
WORK = 18
"""The binary logarithm of scrypt's cost, as the age command uses it: 256 MiB and about a second."""
LARGEST_WORK = 22
"""Files that ask for more are refused, as they would need over 4 GiB."""
HEADER = re.compile(
    rb"("
    + re.escape(AGE)
    + rb"\n-> scrypt ([A-Za-z0-9+/]{22}) ([1-9][0-9]?)\n([A-Za-z0-9+/]{43})\n---) ([A-Za-z0-9+/]{43})\n"
)
LONGEST_HEADER = 1024


def _encode(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4))


def _derive_key(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """HKDF-SHA256 of 32 bytes: one round of its expansion."""
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, purpose + b"\x01", "sha256")


def _make_cipher(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key)


def _stretch_passphrase(passphrase: str, salt: bytes, work: int) -> Any:
    """The cipher that wraps a file's key."""
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    scrypt = Scrypt(salt=AGE + b"/scrypt" + salt, length=32, n=2**work, r=8, p=1)
    return _make_cipher(scrypt.derive(passphrase.encode()))


def _number_piece(number: int, *, is_last: bool) -> bytes:
    """The nonce of a piece: pieces cannot be swapped, and none can be missing at the end."""
    return number.to_bytes(11, "big") + bytes([is_last])


class EncryptedWriter(io.RawIOBase):
    """A stream whose content is encrypted into a file; `finish` writes the last piece."""

    def __init__(self, file: BinaryIO, passphrase: str) -> None:
        self._file = file
        file_key = os.urandom(16)
        salt = os.urandom(16)
        wrapped = _stretch_passphrase(passphrase, salt, WORK).encrypt(bytes(12), file_key, None)
        head = AGE + b"\n-> scrypt %s %d\n%s\n---" % (_encode(salt), WORK, _encode(wrapped))
        mac = hmac.digest(_derive_key(file_key, b"", b"header"), head, "sha256")
        nonce = os.urandom(16)
        file.write(head + b" " + _encode(mac) + b"\n" + nonce)
        self._cipher = _make_cipher(_derive_key(file_key, nonce, b"payload"))
        self._number = 0
        self._waiting = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._waiting += data
        # The last piece is known only at the end, and is not empty.
        while len(self._waiting) > PIECE:
            self._write_piece(bytes(self._waiting[:PIECE]), is_last=False)
            del self._waiting[:PIECE]
        return len(data)

    def _write_piece(self, piece: bytes, *, is_last: bool) -> None:
        self._file.write(self._cipher.encrypt(_number_piece(self._number, is_last=is_last), piece, None))
        self._number += 1

    def finish(self) -> None:
        """Write the piece that marks the end."""
        self._write_piece(bytes(self._waiting), is_last=True)


class EncryptedReader(io.RawIOBase):
    """The content of an encrypted file, readable at any position; nothing that is not encrypted touches the disk."""

    def __init__(self, path: Path, passphrase: str) -> None:
        self._path = path
        self._file = path.open("rb")
        try:
            self._cipher = self._open(passphrase)
        except BaseException:
            self._file.close()
            raise
        stored = path.stat().st_size - self._begin
        self._pieces = max(1, -(-stored // (PIECE + TAG)))
        self._size = stored - TAG * self._pieces
        self._position = 0
        self._piece: tuple[int, bytes] = (-1, b"")

    def _open(self, passphrase: str) -> Any:
        header = HEADER.match(self._file.read(LONGEST_HEADER))
        if header is None:
            raise InputError(f"{self._path}: encrypted in another way than by a passphrase; decrypt it with age first")
        head, salt, work, wrapped, mac = header.groups()
        if int(work) > LARGEST_WORK:
            raise InputError(f"{self._path}: its passphrase needs over 4 GiB of memory; decrypt it with age first")
        file_key = self._decrypt(_stretch_passphrase(passphrase, _decode(salt), int(work)), bytes(12), _decode(wrapped))
        if not hmac.compare_digest(hmac.digest(_derive_key(file_key, b"", b"header"), head, "sha256"), _decode(mac)):
            raise self._refuse()
        self._file.seek(header.end())
        nonce = self._file.read(16)
        self._begin = header.end() + len(nonce)
        return _make_cipher(_derive_key(file_key, nonce, b"payload"))

    def _refuse(self) -> InputError:
        words = "the passphrase is not the one that it was made with, or the file is damaged"
        return InputError(f"{self._path}: cannot be decrypted; {words}")

    def _decrypt(self, cipher: Any, nonce: bytes, data: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return bytes(cipher.decrypt(nonce, data, None))
        except InvalidTag as error:
            raise self._refuse() from error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise OSError("a position before the beginning")
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        number, begin = divmod(self._position, PIECE)
        if number >= self._pieces:
            return 0
        if self._piece[0] != number:
            self._file.seek(self._begin + number * (PIECE + TAG))
            nonce = _number_piece(number, is_last=number == self._pieces - 1)
            self._piece = (number, self._decrypt(self._cipher, nonce, self._file.read(PIECE + TAG)))
        data = self._piece[1][begin : begin + len(buffer)]
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def encrypt_file(path: Path, passphrase: str) -> Iterator[EncryptedWriter]:
    """A stream into an encrypted file, which is whole when the block ends without an error."""
    with path.open("wb") as file:
        writer = EncryptedWriter(file, passphrase)
        yield writer
        writer.finish()


def open_encrypted(path: Path, passphrase: str) -> io.BufferedReader:
    """The content of an encrypted file; as many bytes as are asked for, also over the ends of pieces."""
    return io.BufferedReader(EncryptedReader(path, passphrase), PIECE)


def is_encrypted(path: Path) -> bool:
    """Whether a file begins as encrypted ones do."""
    with path.open("rb") as file:
        return file.read(len(AGE)) == AGE
