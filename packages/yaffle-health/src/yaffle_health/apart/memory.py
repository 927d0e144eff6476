"""One page and two places in a nameless file of memory: one process writes, the other never reads half.

The page holds the last sign of life, the number of the last document, and of each place the length
and the checksum of what is in it. A document goes to the place that the last one is not in; then its
length and checksum are stored, and then its number. The reader believes a document whose checksum is
right, tries again while it is not, and stays with the one it has.

A page of a file that is mapped and cannot be had is SIGBUS, so documents go through write(2), which
says that there is no room; the one mapped page is written that way once before it is mapped.
"""

from __future__ import annotations

import binascii
import errno
import mmap
import os
from typing import Final

DOCUMENT_MAX: Final = 4 * 1024 * 1024
"""Bytes of a document; the file takes as much memory as the largest so far, twice."""
_PAGE: Final = 4096
_BEAT, _NUMBER, _FIRST_PLACE, _WORDS_A_PLACE = 0, 1, 2, 2
_TRIES_MAX: Final = 100


class Writer:
    """The side that tells; one thread at a time. OSError where there is no memory."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("yaffle-health", os.MFD_CLOEXEC)
        try:
            os.pwrite(self.fd, bytes(_PAGE), 0)
            self._page = mmap.mmap(self.fd, _PAGE)
        except BaseException:
            os.close(self.fd)
            raise
        self._words = memoryview(self._page).cast("Q")

    def beat(self, now_ns: int) -> None:
        """Give a sign of life: one store."""
        self._words[_BEAT] = now_ns

    def write(self, document: bytes) -> None:
        """Put another document in the place of the last; DOCUMENT_MAX bytes at most."""
        number = self._words[_NUMBER] + 1
        place = number % 2
        if os.pwrite(self.fd, document, _offset(place)) != len(document):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        at = _FIRST_PLACE + place * _WORDS_A_PLACE
        self._words[at] = len(document)
        self._words[at + 1] = _checksum(number, document)
        self._words[_NUMBER] = number

    def close(self) -> None:
        """Give the file back; once more is nothing."""
        if self.fd >= 0:
            self._words.release()
            self._page.close()
            os.close(self.fd)
            self.fd = -1


class Reader:
    """The side that shows, with a descriptor of the same file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._page = mmap.mmap(fd, _PAGE, prot=mmap.PROT_READ)
        self._words = memoryview(self._page).cast("Q")

    @property
    def beat_ns(self) -> int:
        """When the writer gave its last sign of life, by CLOCK_MONOTONIC."""
        return self._words[_BEAT]

    def newer(self, known: int) -> tuple[int, bytes] | None:
        """The last document and its number; None if that is the known one, or none is whole."""
        for _ in range(_TRIES_MAX):
            number = self._words[_NUMBER]
            if number == known:
                return None
            document = self._document(number)
            if document is not None:
                return number, document
        return None

    def close(self) -> None:
        """Give the mapping back; the descriptor is the caller's."""
        self._words.release()
        self._page.close()

    def _document(self, number: int) -> bytes | None:
        place = number % 2
        at = _FIRST_PLACE + place * _WORDS_A_PLACE
        length, checksum = self._words[at], self._words[at + 1]
        if length > DOCUMENT_MAX:
            return None
        found = os.pread(self._fd, length, _offset(place))
        if len(found) != length or _checksum(number, found) != checksum:
            return None
        return found


def _checksum(number: int, document: bytes) -> int:
    # Over its number, too: what has come to that place meanwhile is another document, if a whole one.
    return binascii.crc32(document, number & 0xFFFF_FFFF)


def _offset(place: int) -> int:
    return _PAGE + place * DOCUMENT_MAX
