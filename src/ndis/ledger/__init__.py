"""The privacy budget: durable, shared between processes, and never overspent."""

from ndis.ledger.book import Entry, Ledger
from ndis.ledger.chain import DamagedLedger
from ndis.ledger.modes import BudgetExceeded, Remaining

__all__ = ["BudgetExceeded", "DamagedLedger", "Entry", "Ledger", "Remaining"]
