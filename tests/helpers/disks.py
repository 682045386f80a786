"""Disks that are full, by the word of the operating system."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


def fill(size: int = 1) -> None:
    """From now on this process cannot write beyond `size` bytes of any file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@contextmanager
def room_again() -> Iterator[None]:
    """Whatever was filled inside has room afterwards."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def full_beyond(size: int) -> Iterator[None]:
    """No file may be longer than this."""
    with room_again():
        fill(size)
        yield
