"""The commands that this package adds to ``ndis`` (entry points of the group ``ndis.commands``)."""
