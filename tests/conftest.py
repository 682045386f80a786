from ledger_places import place, server  # noqa: F401 - fixtures
