"""What was published and with which promise: the release, its certificate and its file."""

from ndis.release.certificate import plain
from ndis.release.new_file import NewFile
from ndis.release.release import ChangedRelease, Release, Shapes, blank

__all__ = ["ChangedRelease", "NewFile", "Release", "Shapes", "blank", "plain"]
