"""The release: published arrays, the promise that comes with them, certificate and file."""

from ndis.release.certificate import plain
from ndis.release.new_file import NewFile
from ndis.release.release import ChangedRelease, Release, Shapes, blank

__all__ = ["ChangedRelease", "NewFile", "Release", "Shapes", "blank", "plain"]
