"""The privacy budget: durable, shared between processes, and never overspent."""

from ndis.ledger.book import Entry, Ledger
from ndis.ledger.modes import BudgetExceeded, Remaining
from ndis.ledger.storage import DamagedLedger, OtherVersion

__all__ = ["BudgetExceeded", "DamagedLedger", "Entry", "Ledger", "OtherVersion", "Remaining"]
