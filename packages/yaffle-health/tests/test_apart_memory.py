"""The memory that a host and its helper share: the reader never sees half of anything."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from yaffle_health.apart import memory
from yaffle_health.apart.memory import DOCUMENT_MAX, Reader, Writer


@pytest.fixture
def both() -> Iterator[tuple[Writer, Reader]]:
    writer = Writer()
    reader = Reader(writer.fd)
    yield writer, reader
    reader.close()
    writer.close()
    writer.close()


def test_what_is_written_is_read_once(both: tuple[Writer, Reader]) -> None:
    writer, reader = both
    assert reader.newer(0) is None
    for number, document in enumerate([b"one", b"", b"x" * DOCUMENT_MAX, b"four"], 1):
        writer.write(document)
        assert reader.newer(number - 1) == (number, document)
        assert reader.newer(number) is None
    assert reader.newer(1) == (4, b"four")
    writer.beat(123456789012345)
    assert reader.beat_ns == 123456789012345


def test_memory_grows_with_what_is_in_it(both: tuple[Writer, Reader]) -> None:
    writer, _ = both
    writer.write(b"small")
    writer.write(b"small")
    assert os.fstat(writer.fd).st_blocks * 512 <= 5 * 4096


def test_what_is_not_whole_is_not_read(both: tuple[Writer, Reader]) -> None:
    writer, reader = both
    writer.write(b"first")
    writer.write(b"second")
    # As it is when the writer has begun with the next but one.
    os.pwrite(writer.fd, b"S", memory._offset(0))
    assert reader.newer(1) is None
    os.pwrite(writer.fd, b"s", memory._offset(0))
    assert reader.newer(1) == (2, b"second")
    writer._words[memory._FIRST_PLACE] = 2**60
    assert reader.newer(1) is None


def test_a_document_is_not_taken_for_one_before_it(both: tuple[Writer, Reader]) -> None:
    writer, reader = both
    for document in (b"first", b"second", b"third"):
        writer.write(document)
    # As the reader sees it that looked at the number, and was kept from going on.
    writer._words[memory._NUMBER] = 1
    assert reader.newer(0) is None


def test_a_writer_without_memory_says_so(both: tuple[Writer, Reader]) -> None:
    import resource

    writer, reader = both
    writer.write(b"before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.write(b"after")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert reader.newer(0) == (1, b"before")


RACER = """
import marshal, sys
sys.path[:] = {path!r}
from yaffle_health.apart.memory import Reader
reader, number, seen = Reader({fd}), 0, 0
while seen < 150:
    found = reader.newer(number)
    if found is None:
        continue
    number, document = found
    (value,) = set(marshal.loads(document))          # never two of them
    assert value == number, (value, number)
    seen += 1
print("whole")
"""


def test_a_reader_that_races_its_writer_sees_whole_documents() -> None:
    writer = Writer()
    program = RACER.format(path=sys.path, fd=writer.fd)
    with subprocess.Popen(
        [sys.executable, "-c", program], pass_fds=[writer.fd], stdout=subprocess.PIPE, text=True
    ) as child:
        number = 0
        while child.poll() is None:
            number += 1
            # Long ones, so that they are read while they are written.
            writer.write(marshal.dumps([number] * (1000 + number % 7 * 3000)))
        assert child.communicate()[0] == "whole\n"
    writer.close()
